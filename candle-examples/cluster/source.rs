//! Weights that are loaded in parts, from each kind of model file. Only the bytes of a part go to the device.

use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::quantized::QMatMul;
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use candle_examples::gguf::Gguf;
use candle_examples::layers::{Cut, Projection, Weights};
use candle_examples::{random, Error, Result};
use candle_nn::VarBuilder;
use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

/// The dims of a cut matrix.
fn dims_of((rows, columns): (usize, usize), cut: &Cut) -> (usize, usize) {
    match cut {
        Cut::Whole => (rows, columns),
        Cut::Rows(part) => (part.len(), columns),
        Cut::Columns(part) => (rows, part.len()),
    }
}

/// These bytes of each row.
fn columns(data: &[u8], row: usize, part: Range<usize>) -> Vec<u8> {
    let rows = data.chunks_exact(row);
    rows.flat_map(|row| &row[part.clone()]).copied().collect()
}

fn bad(path: &std::path::Path, reason: String) -> Error {
    Error::Checkpoint {
        path: path.to_path_buf(),
        reason,
    }
}

/// A folder of safetensors.
pub struct Safetensors {
    pub files: MmapedSafetensors,
    pub folder: PathBuf,
    pub dtype: DType,
    pub device: Device,
}

impl Safetensors {
    fn load(&self, name: &str, dims: &[usize], cut: &Cut) -> Result<Tensor> {
        let name = format!("{name}.weight");
        let view = self.files.get(&name);
        let view = view.map_err(|_| bad(&self.folder, format!("no tensor {name}")))?;
        if view.shape() != dims {
            let found = view.shape();
            let reason = format!("{name} has shape {found:?}, but the config requires {dims:?}");
            return Err(bad(&self.folder, reason));
        }
        let stored = DType::try_from(view.dtype())?;
        let (data, width) = (view.data(), stored.size_in_bytes());
        let &[rows, row] = dims else {
            let tensor = Tensor::from_raw_buffer(data, stored, dims, &self.device)?;
            return Ok(tensor.to_dtype(self.dtype)?);
        };
        let part: Cow<[u8]> = match cut {
            Cut::Whole => data.into(),
            Cut::Rows(part) => data[part.start * row * width..part.end * row * width].into(),
            Cut::Columns(part) => {
                columns(data, row * width, part.start * width..part.end * width).into()
            }
        };
        let dims = dims_of((rows, row), cut);
        let tensor = Tensor::from_raw_buffer(&part, stored, &[dims.0, dims.1], &self.device)?;
        Ok(tensor.to_dtype(self.dtype)?)
    }
}

impl Weights for Safetensors {
    fn matrix(&mut self, name: &str, dims: (usize, usize), cut: &Cut) -> Result<Projection> {
        Ok(Projection::dense(self.load(
            name,
            &[dims.0, dims.1],
            cut,
        )?))
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        self.load(name, &[len], &Cut::Whole)
    }
}

/// Weights of a builder: those of a llama2.c file, which are in host memory, or random ones, which are made where they are needed.
pub struct Built {
    pub builder: VarBuilder<'static>,
    /// Whether the builder makes tensors of any dims.
    pub random: bool,
    pub dtype: DType,
    pub device: Device,
}

impl Built {
    pub fn random(dtype: DType, device: &Device) -> Self {
        Self {
            builder: random::weights(dtype, device),
            random: true,
            dtype,
            device: device.clone(),
        }
    }
}

impl Weights for Built {
    fn matrix(&mut self, name: &str, dims: (usize, usize), cut: &Cut) -> Result<Projection> {
        let name = format!("{name}.weight");
        if self.random {
            let weight = self.builder.get(dims_of(dims, cut), &name)?;
            return Ok(Projection::dense(weight));
        }
        let weight = self.builder.get(dims, &name)?;
        let weight = match cut {
            Cut::Whole => weight,
            Cut::Rows(part) => weight.narrow(0, part.start, part.len())?,
            Cut::Columns(part) => weight.narrow(1, part.start, part.len())?,
        };
        let weight = weight.contiguous()?.to_dtype(self.dtype)?;
        Ok(Projection::dense(weight.to_device(&self.device)?))
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let weight = self.builder.get(len, &format!("{name}.weight"))?;
        let weight = weight.contiguous()?.to_dtype(self.dtype)?;
        Ok(weight.to_device(&self.device)?)
    }
}

/// A GGUF file. Quantized weights stay in their blocks; activations are f32.
pub struct Blocks {
    pub file: Gguf,
    pub device: Device,
}

/// The name in GGUF files of a tensor of `models::llama`.
fn gguf_name(name: &str) -> String {
    let part = |name: &str| match name {
        "self_attn.q_proj" => Some("attn_q"),
        "self_attn.k_proj" => Some("attn_k"),
        "self_attn.v_proj" => Some("attn_v"),
        "self_attn.o_proj" => Some("attn_output"),
        "mlp.gate_proj" => Some("ffn_gate"),
        "mlp.up_proj" => Some("ffn_up"),
        "mlp.down_proj" => Some("ffn_down"),
        "input_layernorm" => Some("attn_norm"),
        "post_attention_layernorm" => Some("ffn_norm"),
        _ => None,
    };
    let layer = name.strip_prefix("model.layers.");
    let layer = layer.and_then(|rest| rest.split_once('.'));
    let name = match (name, layer) {
        ("model.embed_tokens", _) => "token_embd".to_string(),
        ("model.norm", _) => "output_norm".to_string(),
        ("lm_head", _) => "output".to_string(),
        (_, Some((layer, rest))) => format!("blk.{layer}.{}", part(rest).unwrap_or(rest)),
        (other, None) => other.to_string(),
    };
    format!("{name}.weight")
}

impl Weights for Blocks {
    fn matrix(&mut self, name: &str, dims: (usize, usize), cut: &Cut) -> Result<Projection> {
        let name = gguf_name(name);
        let (dtype, found) = self.file.tensor(&name)?;
        if found != [dims.0, dims.1] {
            let reason = format!("{name} has dims {found:?}, not {dims:?}");
            return Err(bad(&self.file.path, reason));
        }
        let (block, size) = (dtype.block_size(), dtype.type_size());
        let bytes = match cut {
            Cut::Whole => self.file.rows(&name, 0..dims.0)?,
            Cut::Rows(part) => self.file.rows(&name, part.clone())?,
            Cut::Columns(part) if part.start % block != 0 || part.end % block != 0 => {
                let what = format!(
                    "columns {part:?} of {name}, whose blocks have {block}: use fewer ranks"
                );
                return Err(Error::Unsupported { what });
            }
            Cut::Columns(part) => {
                let all = self.file.rows(&name, 0..dims.0)?;
                let part = part.start / block * size..part.end / block * size;
                columns(&all, dims.1 / block * size, part)
            }
        };
        let (rows, row) = dims_of(dims, cut);
        let matrix = qtensor_from_ggml(dtype, &bytes, vec![rows, row], &self.device)?;
        Ok(Projection::Quantized(QMatMul::from_qtensor(matrix)?))
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        let name = gguf_name(name);
        let (dtype, found) = self.file.tensor(&name)?;
        if found != [len] {
            let reason = format!("{name} has dims {found:?}, not [{len}]");
            return Err(bad(&self.file.path, reason));
        }
        let bytes = self.file.rows(&name, 0..1)?;
        let vector = qtensor_from_ggml(dtype, &bytes, vec![len], &self.device)?;
        Ok(vector.dequantize(&self.device)?)
    }
}

/// Calls `tick` for each tensor, so that loading counts as progress.
pub struct Ticking<'a> {
    pub weights: &'a mut dyn Weights,
    pub tick: &'a dyn Fn(),
}

impl Weights for Ticking<'_> {
    fn matrix(&mut self, name: &str, dims: (usize, usize), cut: &Cut) -> Result<Projection> {
        (self.tick)();
        self.weights.matrix(name, dims, cut)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor> {
        (self.tick)();
        self.weights.vector(name, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gguf() {
        for (name, expected) in [
            (
                "model.layers.12.self_attn.o_proj",
                "blk.12.attn_output.weight",
            ),
            ("model.layers.0.input_layernorm", "blk.0.attn_norm.weight"),
            ("lm_head", "output.weight"),
        ] {
            assert_eq!(gguf_name(name), expected);
        }
    }

    #[test]
    fn columns_are_those_of_each_row() {
        assert_eq!(columns(&[0, 1, 2, 3, 4, 5], 3, 1..3), [1, 2, 4, 5]);
    }
}
