//! Presents the tensors of a GGUF file as f32: each is dequantized when it is read.

use super::Source;
use candle_core::quantized::gguf_file::{Content, TensorInfo};
use candle_core::quantized::GgmlDType;
use candle_core::{Device, Result};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom};

pub struct Unpacked {
    from: Box<dyn Source>,
    data_offset: u64,
    /// The file's tensors, by their offsets in f32.
    tensors: BTreeMap<u64, TensorInfo>,
    size: u64,
    /// The tensor being read.
    tensor: Cursor<Vec<u8>>,
}

impl Unpacked {
    /// Changes the dtypes and offsets in `content` to those that this reader provides.
    pub fn new(content: &mut Content, from: Box<dyn Source>) -> Self {
        let mut tensors = BTreeMap::new();
        let mut size = 0;
        for info in content.tensor_infos.values_mut() {
            let unpacked = TensorInfo {
                ggml_dtype: GgmlDType::F32,
                shape: info.shape.clone(),
                offset: size,
            };
            tensors.insert(size, std::mem::replace(info, unpacked));
            size += info.shape.elem_count() as u64 * 4;
        }
        Self {
            from,
            data_offset: std::mem::take(&mut content.tensor_data_offset),
            tensors,
            size,
            tensor: Cursor::default(),
        }
    }
}

/// Supports the end and positions within tensors.
impl Seek for Unpacked {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::End(0) => return Ok(self.size),
            SeekFrom::Start(at) => at,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let tensor = self.tensors.range(..=at).next_back();
        let (start, info) = tensor.ok_or(io::ErrorKind::InvalidInput)?;
        let bytes = unpack(info, &mut self.from, self.data_offset).map_err(io::Error::other)?;
        self.tensor = Cursor::new(bytes);
        self.tensor.set_position(at - start);
        Ok(at)
    }
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.tensor.read(into)
    }
}

fn unpack(info: &TensorInfo, from: &mut Box<dyn Source>, data_offset: u64) -> Result<Vec<u8>> {
    let tensor = info.read(from, data_offset, &Device::Cpu)?;
    let tensor = tensor.dequantize(&Device::Cpu)?.flatten_all()?;
    let mut bytes = Vec::with_capacity(tensor.elem_count() * 4);
    for value in tensor.to_vec1::<f32>()? {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(bytes)
}
