//! Safetensors files read tensor by tensor from any source, for systems that cannot map files.
//!
//! The safetensors crate keeps offsets in a `usize`, which cannot describe files above 4 GiB in WebAssembly.

use super::config::bad;
use crate::error::{Error, Result};
use crate::gguf::Source;
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::SeekFrom;
use std::path::{Path, PathBuf};

/// The largest header that the safetensors crate accepts.
const MOST_HEADER: u64 = 100_000_000;

/// The tensors of one or more files.
pub struct Shards {
    /// For errors.
    path: PathBuf,
    files: Vec<Box<dyn Source>>,
    tensors: BTreeMap<String, Place>,
}

/// Where a tensor is, and what it is.
struct Place {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    start: u64,
    bytes: usize,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Shards {
    /// Reads the headers; `path` is for errors.
    pub fn open(path: &Path, files: Vec<Box<dyn Source>>) -> Result<Self> {
        let mut shards = Self {
            path: path.to_path_buf(),
            files,
            tensors: BTreeMap::new(),
        };
        for file in 0..shards.files.len() {
            shards.read_header(file)?;
        }
        Ok(shards)
    }

    fn read_header(&mut self, file: usize) -> Result<()> {
        let path = self.path.clone();
        let source = &mut self.files[file];
        let size = source.seek(SeekFrom::End(0)).map_err(Error::io(&path))?;
        source.rewind().map_err(Error::io(&path))?;
        let mut length = [0; 8];
        let read = source.read_exact(&mut length);
        read.map_err(|_| bad(&path, "it is too short for a safetensors file"))?;
        let length = u64::from_le_bytes(length);
        if length > MOST_HEADER || length > size - 8 {
            return Err(bad(&path, "it does not begin with a safetensors header"));
        }
        let mut header = vec![0; length as usize];
        source.read_exact(&mut header).map_err(Error::io(&path))?;
        let header: HashMap<String, Value> =
            serde_json::from_slice(&header).map_err(|e| bad(&path, e))?;
        let data = 8 + length;
        for (name, entry) in header {
            if name == "__metadata__" {
                continue;
            }
            let place = place(file, entry, data, size).map_err(|reason| {
                bad(&path, format!("its tensor {name} is not valid: {reason}"))
            })?;
            self.tensors.insert(name, place);
        }
        Ok(())
    }

    pub fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    /// The elements and the stored bytes of each tensor.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let size = |t: &Place| (t.shape.iter().product(), t.bytes as u64);
        self.tensors.values().map(size)
    }

    /// An error if the tensor is missing or has another shape.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        match self.tensors.get(name) {
            None => Err(bad(&self.path, format!("no tensor {name}"))),
            Some(place) if place.shape != shape => {
                let found = &place.shape;
                let reason =
                    format!("{name} has shape {found:?}, but the config requires {shape:?}");
                Err(bad(&self.path, reason))
            }
            Some(_) => Ok(()),
        }
    }

    /// Reads a tensor and converts it.
    pub fn load(&mut self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let place = self.tensors.get(name);
        let place = place.ok_or_else(|| bad(&self.path, format!("no tensor {name}")))?;
        let source = &mut self.files[place.file];
        let path = &self.path;
        let seek = source.seek(SeekFrom::Start(place.start));
        seek.map_err(Error::io(path))?;
        let mut bytes = vec![0; place.bytes];
        source.read_exact(&mut bytes).map_err(Error::io(path))?;
        let tensor = Tensor::from_raw_buffer(&bytes, place.dtype, &place.shape, device)?;
        Ok(tensor.to_dtype(dtype)?)
    }

    /// Reads these tensors, after checking all their shapes.
    pub fn load_all(
        &mut self,
        wanted: &[(String, Vec<usize>)],
        dtype: DType,
        device: &Device,
    ) -> Result<HashMap<String, Tensor>> {
        for (name, shape) in wanted {
            self.check(name, shape)?;
        }
        let names = wanted.iter().map(|(name, _)| name);
        let load = |name: &String| Ok((name.clone(), self.load(name, dtype, device)?));
        names.map(load).collect()
    }
}

fn place(file: usize, entry: Value, data: u64, size: u64) -> Result<Place, String> {
    let entry: Entry = serde_json::from_value(entry).map_err(|e| e.to_string())?;
    let dtype = entry.dtype.to_lowercase().parse::<DType>();
    let dtype = dtype.map_err(|_| format!("its dtype is {}", entry.dtype))?;
    let (start, end) = entry.data_offsets;
    let elements = entry
        .shape
        .iter()
        .try_fold(1usize, |n, d| n.checked_mul(*d));
    let bytes = elements.and_then(|n| n.checked_mul(dtype.size_in_bytes()));
    let (Some(bytes), Some(stored)) = (bytes, end.checked_sub(start)) else {
        return Err(format!("shape {:?}, bytes {start} to {end}", entry.shape));
    };
    if bytes as u64 != stored || data.checked_add(end).is_none_or(|end| end > size) {
        return Err(format!(
            "bytes {start} to {end} for {:?} in {}, in a file of {size}",
            entry.shape, entry.dtype
        ));
    }
    Ok(Place {
        file,
        dtype,
        shape: entry.shape,
        start: data + start,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn open(bytes: &[u8]) -> Result<Shards> {
        Shards::open(Path::new("m"), vec![Box::new(Cursor::new(bytes.to_vec()))])
    }

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 1);
        bytes
    }

    #[test]
    fn tensors_are_those_that_candle_saves() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let path = dir.path().join("m.safetensors");
        let a = Tensor::randn(0f32, 1., (2, 3), &Device::Cpu)?;
        let b = Tensor::arange(0u32, 5, &Device::Cpu)?;
        let all = HashMap::from([("a", a.clone()), ("b", b.clone())]);
        candle_core::safetensors::save(&all, &path)?;
        let mut shards = open(&std::fs::read(&path).map_err(Error::io(&path))?)?;
        assert_eq!(shards.names(), ["a", "b"]);
        let wanted = [("a".to_string(), vec![2, 3])];
        let loaded = shards.load_all(&wanted, DType::F32, &Device::Cpu)?;
        assert_eq!(loaded["a"].to_vec2::<f32>()?, a.to_vec2::<f32>()?);
        let loaded = shards.load("b", DType::U32, &Device::Cpu)?;
        assert_eq!(loaded.to_vec1::<u32>()?, b.to_vec1::<u32>()?);
        assert!(shards.check("a", &[3, 2]).is_err() && shards.check("c", &[1]).is_err());
        Ok(())
    }

    #[test]
    fn damaged_headers_are_errors_and_no_allocations() {
        let entry = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        let whole = file(&entry("F32", "[2]", "[0,8]"), 8);
        assert!(open(&whole).is_ok());
        for bytes in [
            Vec::new(),
            u64::MAX.to_le_bytes().to_vec(),
            whole[..whole.len() - 1].to_vec(),
            file("[]", 0),
            file(&entry("F9", "[2]", "[0,8]"), 8),
            file(&entry("F32", "[3]", "[0,8]"), 8),
            file(&entry("F32", "[2]", "[8,0]"), 8),
            file(&entry("F32", "[4294967296,4294967296]", "[0,8]"), 8),
            file(
                &entry("F32", "[2]", "[18446744073709551607,18446744073709551615]"),
                8,
            ),
        ] {
            assert!(
                matches!(open(&bytes), Err(Error::Checkpoint { .. })),
                "{bytes:?}"
            );
        }
    }
}
