//! Corrupt files: truncated, with absurd sizes, or with tensors that share bytes. They must give an error, not a panic,
//! and take no more memory than the file's size justifies.

use std::io::Cursor;
use std::path::Path;

use anyhow::{anyhow, bail, ensure, Context, Result};
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use candle_examples::gguf::Gguf;
use candle_examples::llama2c::Checkpoint;
use candle_examples::tokenizer::Tokenizer;

use crate::family::{Family, FAMILIES};
use crate::{gpu, refused, works, Case};

const LIMITED: &[(&str, &str)] = &[(candle_webgpu::MEMORY_VAR, "256M")];

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "files/gguf_truncated",        vars: LIMITED, run: gguf_truncated },
    Case { name: "files/gguf_any_word",         vars: LIMITED, run: gguf_any_word },
    Case { name: "files/gguf_metadata",         vars: LIMITED, run: gguf_metadata },
    Case { name: "files/gguf_tensors",          vars: LIMITED, run: gguf_tensors },
    Case { name: "files/safetensors",           vars: LIMITED, run: safetensors },
    Case { name: "files/llama2c",               vars: LIMITED, run: llama2c },
    Case { name: "files/quantized_tensors",     vars: LIMITED, run: quantized_tensors },
];

/// Bytes of host memory that a case may additionally take: the files here have 2 MB.
const ROOM: usize = 512 << 20;

/// Fails if `work` makes the process grow by more. Only Linux reports it.
fn bounded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let before = peak();
    work()?;
    let grown = peak()
        .zip(before)
        .map_or(0, |(now, then)| (now - then) << 10);
    ensure!(grown < ROOM, "{grown} bytes of host memory");
    Ok(())
}

fn llama() -> Result<&'static Family> {
    let family = FAMILIES.iter().find(|f| f.name == "llama");
    family.context("no such family")
}

/// A complete model with a tokenizer, which loads.
fn whole(d: &Device) -> Result<Vec<u8>> {
    let bytes = gguf()?;
    load(bytes.clone(), d)?;
    Ok(bytes)
}

fn gguf() -> Result<Vec<u8>> {
    let family = llama()?;
    let mut metadata = family.metadata();
    let text = |t: &str| Value::String(t.into());
    let mut tokens = vec![text("t"), text("1"), text("t1")];
    tokens.extend((3..67).map(|i| text(&format!("<{i}>"))));
    metadata.push(("tokenizer.ggml.model".into(), text("gpt2")));
    metadata.push(("tokenizer.ggml.pre".into(), text("smollm")));
    metadata.push(("tokenizer.ggml.tokens".into(), Value::Array(tokens)));
    metadata.push((
        "tokenizer.ggml.merges".into(),
        Value::Array(vec![text("t 1")]),
    ));
    let mut tensors = Vec::new();
    for (name, dims) in family.tensors() {
        let dtype = match dims.len() {
            1 => GgmlDType::F32,
            _ => GgmlDType::Q8_0,
        };
        let tensor = Tensor::ones(dims, DType::F32, &Device::Cpu)?;
        tensors.push((name, QTensor::quantize(&tensor, dtype)?));
    }
    let metadata: Vec<_> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let tensors: Vec<_> = tensors.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &metadata, &tensors)?;
    Ok(file.into_inner())
}

/// Loads a model onto the device and runs it.
fn load(bytes: Vec<u8>, d: &Device) -> Result<()> {
    let file = Gguf::read(Path::new("model.gguf"), Cursor::new(bytes))?;
    let tokenizer = Tokenizer::from_gguf(&file)?;
    let mut loaded = file.load(tokenizer, d)?;
    let logits = candle_examples::generate::Causal::forward(&mut loaded.network, &[3, 4], 0, d)?;
    logits.flatten_all()?.to_vec1::<f32>()?;
    Ok(())
}

/// The offset of the tensors' data.
fn head(bytes: &[u8]) -> Result<usize> {
    let content = gguf_file::Content::read(&mut Cursor::new(bytes))?;
    Ok(content.tensor_data_offset as usize)
}

fn gguf_truncated() -> Result<()> {
    let d = &gpu()?;
    let whole = whole(d)?;
    let head = head(&whole)?;
    bounded(|| {
        let metadata = (0..head).step_by(97);
        let data = (head..whole.len()).step_by(whole.len() / 12);
        for length in metadata.chain(data).chain([whole.len() - 64]) {
            let loaded = load(whole[..length].to_vec(), d);
            ensure!(loaded.is_err(), "{length} of {} bytes load", whole.len());
        }
        Ok(())
    })?;
    works(d)
}

/// No header causes a panic.
fn gguf_any_word() -> Result<()> {
    let d = &gpu()?;
    let whole = whole(d)?;
    let head = head(&whole)?;
    bounded(|| {
        for (i, at) in (0..head - 8).step_by(3).enumerate() {
            let hostile = [u64::MAX, 1 << 40, 0, 0x0101_0101, 1 << 63][i % 5];
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&hostile.to_le_bytes());
            // The byte may be a letter of a name; then the file loads, or a tensor is missing.
            if i % 16 == 0 {
                let _ = load(bytes, d);
            } else {
                let _ = Gguf::read(Path::new("model.gguf"), Cursor::new(bytes));
            }
        }
        Ok(())
    })?;
    works(d)
}

/// The offset of a name's bytes.
fn find(bytes: &[u8], name: &str) -> Result<usize> {
    let mut long = (name.len() as u64).to_le_bytes().to_vec();
    long.extend(name.as_bytes());
    let at = bytes.windows(long.len()).position(|w| w == long);
    Ok(at.with_context(|| name.to_string())? + long.len())
}

fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

fn gguf_metadata() -> Result<()> {
    let d = &gpu()?;
    let whole = whole(d)?;
    bounded(|| {
        for (key, values) in [
            ("block_count", &[3, 1 << 13, u32::MAX][..]),
            ("context_length", &[u32::MAX]),
            ("embedding_length", &[0, 12, u32::MAX]),
            ("attention.head_count", &[0, 3, u32::MAX]),
            ("attention.head_count_kv", &[0, 5, 1 << 16, u32::MAX]),
            ("attention.key_length", &[1 << 24]),
            ("rope.dimension_count", &[0, 1 << 24, u32::MAX]),
        ] {
            // The name is followed by the type, a u32.
            let at = find(&whole, &format!("llama.{key}"))? + 4;
            for value in values {
                let mut bytes = whole.clone();
                put(&mut bytes, at, (*value).into(), 4);
                ensure!(load(bytes, d).is_err(), "{key} {value}");
            }
        }
        Ok(())
    })?;
    works(d)
}

fn gguf_tensors() -> Result<()> {
    let d = &gpu()?;
    let whole = whole(d)?;
    // The name is followed by the number of dims, two dims, the type and the offset.
    let at = find(&whole, "blk.1.ffn_up.weight")?;
    let (dims, dtype, offset) = (at + 4, at + 20, at + 24);
    bounded(|| {
        for [x, y] in [
            [1 << 32, 1 << 32],
            [u64::MAX, u64::MAX],
            [256, 1 << 40],
            [0, 0],
            [256, 513],
            [1 << 63, 2],
        ] {
            let mut bytes = whole.clone();
            put(&mut bytes, dims, x, 8);
            put(&mut bytes, dims + 8, y, 8);
            ensure!(load(bytes, d).is_err(), "dims {x} {y}");
        }
        for to in [u64::MAX, 1 << 62, whole.len() as u64] {
            let mut bytes = whole.clone();
            put(&mut bytes, offset, to, 8);
            ensure!(load(bytes, d).is_err(), "offset {to}");
        }
        for to in [99, 5, u32::MAX] {
            let mut bytes = whole.clone();
            put(&mut bytes, dtype, to.into(), 4);
            ensure!(load(bytes, d).is_err(), "dtype {to}");
        }
        // All at the same offset, in a file with room for one of them.
        let mut bytes = whole.clone();
        for (name, dims) in llama()?.tensors() {
            let at = find(&bytes, &name)? + 4 + 8 * dims.len() + 4;
            put(&mut bytes, at, 0, 8);
        }
        bytes.truncate(head(&whole)? + 300_000);
        let error = load(bytes, d).err().context("it loads")?;
        ensure!(error.to_string().contains("overlap"), "{error}");
        Ok(())
    })?;
    works(d)
}

/// A safetensors file with this header and data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn safetensors() -> Result<()> {
    let d = &gpu()?;
    let tensor = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let one = |t: String| format!(r#"{{"x":{t}}}"#);
    let good = one(tensor("F32", "[4]", 0, 16));
    let loaded = candle_core::safetensors::load_buffer(&file(&good, 16), d)?;
    ensure!(loaded["x"].to_vec1::<f32>()? == [0.; 4]);
    let huge = u64::MAX.to_string();
    let mut bad = vec![
        vec![],
        huge.clone().into_bytes(),
        u64::MAX.to_le_bytes().to_vec(),
        file(&good, 15),
        file(&good, 17),
        file(&good, 0),
        file("{", 0),
        file(&one(tensor("F32", "[5]", 0, 16)), 16),
        file(&one(tensor("F32", "[4]", 16, 0)), 16),
        file(&one(tensor("F32", &format!("[{huge},{huge}]"), 0, 16)), 16),
        file(&one(tensor("F32", "[4611686018427387904,4]", 0, 0)), 0),
        file(&one(tensor("F32", "[4]", u64::MAX - 15, u64::MAX)), 16),
        file(&one(tensor("Q4", "[4]", 0, 16)), 16),
        file(&one(tensor("F4", "[3]", 0, 2)), 2),
    ];
    let two = |a: String, b: String| format!(r#"{{"x":{a},"y":{b}}}"#);
    bad.push(file(
        &two(tensor("F32", "[4]", 0, 16), tensor("F32", "[4]", 8, 24)),
        24,
    ));
    bad.push(file(
        &two(tensor("F32", "[4]", 0, 16), tensor("F32", "[4]", 0, 16)),
        16,
    ));
    for cut in (0..good.len() + 8).step_by(5) {
        bad.push(file(&good, 16)[..cut].to_vec());
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("model.safetensors");
    bounded(|| {
        for bytes in bad {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            ensure!(
                candle_core::safetensors::load_buffer(&bytes, d).is_err(),
                "{text}"
            );
            std::fs::write(&path, &bytes)?;
            ensure!(candle_core::safetensors::load(&path, d).is_err(), "{text}");
        }
        Ok(())
    })?;
    // Elements of half a byte arrive as raw bytes, and nothing reads past them.
    let small = file(&one(tensor("F4", "[2,4]", 0, 4)), 4);
    let x = &candle_core::safetensors::load_buffer(&small, d)?["x"];
    ensure!(x.dtype() == DType::F4);
    refused(x.contiguous()?.get(1)?.to_dtype(DType::F32), &["F4"])?;
    works(d)
}

fn llama2c() -> Result<()> {
    let d = &gpu()?;
    let words: [i32; 7] = [8, 16, 2, 2, 2, 300, 32];
    let read = |words: [i32; 7], bytes: usize, says: u64| -> Result<()> {
        let mut file: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        file.resize(bytes, 0);
        let file = Checkpoint::open(Path::new("model.bin"), Cursor::new(file), says)?;
        file.load(DType::F32, d)?;
        Ok(())
    };
    // Its size, from the error for a file that is too short.
    let Err(error) = read(words, 28, 28) else {
        bail!("28 bytes load")
    };
    let text = error.to_string();
    let sizes = text.split(|c: char| !c.is_ascii_digit());
    let whole = sizes.filter_map(|n| n.parse::<usize>().ok()).max();
    let whole = whole.filter(|n| *n > 28).ok_or_else(|| anyhow!(text))?;
    read(words, whole, whole as u64)?;
    bounded(|| {
        for at in 0..7 {
            for word in [i32::MIN, -1, 0, 1 << 20, (1 << 24) - 2, i32::MAX] {
                let mut words = words;
                words[at] = word;
                let loaded = read(words, whole, whole as u64);
                ensure!(loaded.is_err(), "{words:?}");
            }
        }
        // Shorter than declared.
        for bytes in (28..whole).step_by(whole / 20) {
            ensure!(read(words, bytes, whole as u64).is_err(), "{bytes}");
        }
        Ok(())
    })?;
    works(d)
}

/// Fewer blocks than a shape needs, and more than fit in memory.
fn quantized_tensors() -> Result<()> {
    let d = &gpu()?;
    let matrix = |dims: (usize, usize), blocks: usize| -> Result<QTensor> {
        let storage = QStorage::from_data(vec![0; blocks * 34].into(), d, GgmlDType::Q8_0)?;
        Ok(QTensor::new(storage, dims)?)
    };
    let whole = matrix((8, 64), 16)?;
    ensure!(whole.dequantize(d)?.to_vec2::<f32>()? == vec![vec![0.; 64]; 8]);
    ensure!(whole.data()?.iter().all(|b| *b == 0));
    let x = Tensor::ones((1, 64), DType::F32, d)?;
    bounded(|| {
        for dims in [(9, 64), (8, 96), (1 << 40, 64), (1 << 50, 64)] {
            let short = matrix(dims, 16)?;
            refused(short.dequantize(d), &["elements"])?;
            let product = QMatMul::from_qtensor(short)?.forward(&x);
            ensure!(product.is_err(), "{dims:?}");
        }
        let odd = QStorage::from_data(vec![0; 33].into(), d, GgmlDType::Q8_0);
        refused(odd, &["33 bytes", "whole number"])?;
        Ok(())
    })?;
    works(d)
}
