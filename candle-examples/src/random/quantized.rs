//! In-memory GGUF files for `models::quantized_llama`: all matrices share the same random blocks.

use super::Preset;
use crate::error::{Error, Result};
use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value, VersionedMagic};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::io::Cursor;

/// A quantized weight format.
#[derive(Debug)]
pub struct Quant {
    pub name: &'static str,
    dtype: GgmlDType,
}

#[rustfmt::skip]
pub const QUANTS: &[Quant] = &[
    Quant { name: "q4_0", dtype: GgmlDType::Q4_0 },
    Quant { name: "q4_1", dtype: GgmlDType::Q4_1 },
    Quant { name: "q5_0", dtype: GgmlDType::Q5_0 },
    Quant { name: "q5_1", dtype: GgmlDType::Q5_1 },
    Quant { name: "q8_0", dtype: GgmlDType::Q8_0 },
    Quant { name: "q2_k", dtype: GgmlDType::Q2K },
    Quant { name: "q3_k", dtype: GgmlDType::Q3K },
    Quant { name: "q4_k", dtype: GgmlDType::Q4K },
    Quant { name: "q5_k", dtype: GgmlDType::Q5K },
    Quant { name: "q6_k", dtype: GgmlDType::Q6K },
];

/// Number of random blocks, which repeat: quantizing 1.1e9 numbers takes minutes. A prime, so that the rows of a matrix differ.
const BLOCKS: usize = 257;

/// `bytes` bytes of random blocks, the same in each process.
fn blocks(dtype: GgmlDType, bytes: usize) -> Result<Vec<u8>> {
    // A linear congruential generator (Numerical Recipes); the standard deviation is that of the dense weights.
    let mut state = 1u32;
    let values = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.02 * 12f32.sqrt() * (state as f32 / u32::MAX as f32 - 0.5)
    });
    let values: Vec<f32> = values.take(BLOCKS * dtype.block_size()).collect();
    let values = Tensor::new(values, &Device::Cpu)?;
    let blocks = QTensor::quantize(&values, dtype)?;
    let blocks = blocks.data()?;
    Ok(blocks.iter().copied().cycle().take(bytes).collect())
}

/// A matrix of random blocks.
pub fn matrix(dtype: GgmlDType, (rows, cols): (usize, usize), device: &Device) -> Result<QTensor> {
    let bytes = blocks(dtype, rows * cols / dtype.block_size() * dtype.type_size())?;
    Ok(qtensor_from_ggml(dtype, &bytes, vec![rows, cols], device)?)
}

/// The metadata and tensors of a file: all matrices, output and embedding included, in `quant`; the norms in f32.
///
/// Each tensor is read into its own memory, but from the same bytes, so the file is as large as its largest matrix. An error if rows are
/// not a whole number of blocks, as those of stories15m in K-quants.
pub fn gguf(preset: &Preset, quant: &Quant) -> Result<(Content, Cursor<Vec<u8>>)> {
    let (block, size) = (quant.dtype.block_size(), quant.dtype.type_size());
    let tensors = tensors(preset);
    let mut rows = tensors.iter().filter_map(|(_, dims)| dims.get(1));
    if let Some(row) = rows.find(|row| *row % block != 0) {
        let what = format!(
            "{} in {}, whose blocks of {block} do not divide rows of {row}",
            preset.name, quant.name
        );
        return Err(Error::Unsupported { what });
    }
    let matrices = tensors.iter().filter(|(_, dims)| dims.len() == 2);
    let largest = matrices.map(|(_, dims)| dims.iter().product::<usize>());
    let bytes = largest.max().unwrap_or(0) / block * size;

    let mut file = 1f32.to_le_bytes().repeat(preset.hidden);
    let norms = file.len();
    file.extend(blocks(quant.dtype, bytes)?);

    let info = |(name, dims): (String, Vec<usize>)| {
        let (ggml_dtype, offset) = match dims.len() {
            1 => (GgmlDType::F32, 0),
            _ => (quant.dtype, norms as u64),
        };
        let shape = dims.into();
        let info = TensorInfo {
            ggml_dtype,
            shape,
            offset,
        };
        (name, info)
    };
    let content = Content {
        magic: VersionedMagic::GgufV3,
        metadata: metadata(preset).into_iter().collect(),
        tensor_infos: tensors.into_iter().map(info).collect(),
        tensor_data_offset: 0,
    };
    Ok((content, Cursor::new(file)))
}

fn metadata(preset: &Preset) -> Vec<(String, Value)> {
    let config = preset.config();
    let number = |n: usize| Value::U32(n as u32);
    let llama = [
        ("attention.head_count", number(preset.heads)),
        ("attention.head_count_kv", number(preset.kv_heads)),
        (
            "attention.layer_norm_rms_epsilon",
            Value::F32(config.rms_norm_eps as f32),
        ),
        ("block_count", number(preset.layers)),
        ("context_length", number(preset.context)),
        ("embedding_length", number(preset.hidden)),
        ("rope.dimension_count", number(preset.hidden / preset.heads)),
        ("rope.freq_base", Value::F32(config.rope_theta)),
    ]
    .map(|(key, value)| (format!("llama.{key}"), value));
    let name = "general.architecture".to_string();
    let architecture = [(name, Value::String("llama".to_string()))];
    architecture.into_iter().chain(llama).collect()
}

/// Names and dims (rows first) of all matrices and norms.
fn tensors(preset: &Preset) -> Vec<(String, Vec<usize>)> {
    let &Preset {
        hidden,
        inner,
        vocab,
        ..
    } = preset;
    let keys = hidden / preset.heads * preset.kv_heads;
    let ends: [(&str, &[usize]); 3] = [
        ("token_embd", &[vocab, hidden]),
        ("output_norm", &[hidden]),
        ("output", &[vocab, hidden]),
    ];
    let layer: [(&str, &[usize]); 9] = [
        ("attn_norm", &[hidden]),
        ("attn_q", &[hidden, hidden]),
        ("attn_k", &[keys, hidden]),
        ("attn_v", &[keys, hidden]),
        ("attn_output", &[hidden, hidden]),
        ("ffn_norm", &[hidden]),
        ("ffn_gate", &[inner, hidden]),
        ("ffn_up", &[inner, hidden]),
        ("ffn_down", &[hidden, inner]),
    ];
    let ends = ends.map(|(name, dims)| (format!("{name}.weight"), dims.to_vec()));
    let layers = (0..preset.layers)
        .flat_map(|i| layer.map(|(name, dims)| (format!("blk.{i}.{name}.weight"), dims.to_vec())));
    ends.into_iter().chain(layers).collect()
}

#[cfg(test)]
mod tests {
    use super::super::PRESETS;
    use super::*;

    #[test]
    fn rows_of_no_whole_blocks_are_refused() {
        let refusal = |name, quant| {
            let preset = PRESETS.iter().find(|p| p.name == name)?;
            gguf(preset, quant).err().map(|e| e.to_string())
        };
        for quant in QUANTS {
            assert_eq!(refusal("tiny", quant), None);
            let refused = refusal("stories15m", quant);
            let whole = 288 % quant.dtype.block_size() == 0;
            assert_eq!(refused.is_none(), whole);
            assert!(refused.is_none_or(|e| e.contains(quant.name) && e.contains("288")));
        }
    }
}
