//! The tensors of a GGUF file one by one, for models that are loaded in parts.

use super::{network, Gguf, Source};
use crate::error::{Error, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::quantized::GgmlDType;
use candle_transformers::models::llama::Config;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

impl Gguf {
    /// A file in memory, `name` is for errors.
    pub fn in_memory(name: &str, content: Content, reader: impl Source + 'static) -> Self {
        Self {
            path: Path::new(name).to_path_buf(),
            content,
            reader: Box::new(reader),
        }
    }

    /// The dims of a LLaMA. An error for other architectures and mixtures of experts.
    pub fn llama(&self) -> Result<Config> {
        super::measure(&self.content, usize::MAX).map_err(|reason| self.bad(reason))?;
        let architecture = network::find(self.text("general.architecture"))?.name;
        let experts = self.number("llama.expert_count").unwrap_or(0);
        if architecture != "llama" || experts > 1 {
            let what = format!("a {architecture} with {experts} experts in parts, only LLaMA");
            return Err(Error::Unsupported { what });
        }
        let number = |key: &str| {
            let number = self.number(&format!("llama.{key}"));
            number.ok_or_else(|| self.bad(format!("it has no {key}")))
        };
        let float = |key: &str| match self.content.metadata.get(&format!("llama.{key}")) {
            Some(Value::F32(value)) => Some(*value),
            _ => None,
        };
        let (hidden, heads) = (number("embedding_length")?, number("attention.head_count")?);
        let kv_heads = number("attention.head_count_kv")?;
        let rotated = number("rope.dimension_count")?;
        if heads == 0 || kv_heads == 0 || hidden % heads != 0 || heads % kv_heads != 0 {
            return Err(self.bad(format!(
                "{hidden} does not divide into {heads} heads with {kv_heads} key-value heads"
            )));
        }
        if rotated != hidden / heads {
            let what = format!("RoPE of {rotated} elements in heads of {}", hidden / heads);
            return Err(Error::Unsupported { what });
        }
        let rows = |name: &str| Some(self.tensor(name).ok()?.1);
        let eps = float("attention.layer_norm_rms_epsilon");
        Ok(Config {
            hidden_size: hidden,
            intermediate_size: rows("blk.0.ffn_gate.weight")
                .and_then(|dims| dims.first().copied())
                .ok_or_else(|| self.bad("no blk.0.ffn_gate.weight"))?,
            vocab_size: self
                .vocabulary()
                .ok_or_else(|| self.bad("no token_embd.weight"))?,
            num_hidden_layers: number("block_count")?,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            rms_norm_eps: eps.ok_or_else(|| self.bad("it has no layer_norm_rms_epsilon"))? as f64,
            rope_theta: float("rope.freq_base").unwrap_or(10_000.),
            max_position_embeddings: self.context()?,
            tie_word_embeddings: rows("output.weight").is_none(),
            ..Config::config_7b_v1(false)
        })
    }

    /// The dtype and dims (rows first) of a tensor.
    pub fn tensor(&self, name: &str) -> Result<(GgmlDType, Vec<usize>)> {
        let info = self.content.tensor_infos.get(name);
        let info = info.ok_or_else(|| self.bad(format!("no tensor {name}")))?;
        Ok((info.ggml_dtype, info.shape.dims().to_vec()))
    }

    /// Reads some rows of a tensor. A vector is one row.
    pub fn rows(&mut self, name: &str, rows: Range<usize>) -> Result<Vec<u8>> {
        let (dtype, dims) = self.tensor(name)?;
        let row = dims.last().copied().unwrap_or(0);
        if row % dtype.block_size() != 0 {
            return Err(self.bad(format!("rows of {name} are not whole blocks")));
        }
        let all = dims.iter().product::<usize>() / row.max(1);
        if rows.start > rows.end || rows.end > all {
            return Err(self.bad(format!("{name} has {all} rows, not {rows:?}")));
        }
        let bytes = row / dtype.block_size() * dtype.type_size();
        let start = self.content.tensor_data_offset
            + self.content.tensor_infos[name].offset
            + (rows.start * bytes) as u64;
        let mut data = vec![0; rows.len() * bytes];
        let path = &self.path;
        let read = self.reader.seek(SeekFrom::Start(start));
        read.and_then(|_| self.reader.read_exact(&mut data))
            .map_err(Error::io(path))?;
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{gguf, PRESETS, QUANTS};

    #[test]
    fn rows_are_the_same_alone_and_together() -> Result<()> {
        let (content, reader) = gguf(&PRESETS[0], &QUANTS[0])?;
        let mut file = Gguf::in_memory("random", content, reader);
        let config = file.llama()?;
        assert_eq!((config.hidden_size, config.intermediate_size), (256, 768));
        let name = "blk.1.ffn_gate.weight";
        let all = file.rows(name, 0..768)?;
        let some = file.rows(name, 5..7)?;
        assert_eq!(all[5 * 144..7 * 144], some[..]);
        assert!(file.rows(name, 767..769).is_err() && file.rows("nothing", 0..1).is_err());
        // Dequantized rows, too.
        let mut file = file.unpacked();
        let (all, some) = (file.rows(name, 0..768)?, file.rows(name, 5..7)?);
        assert_eq!(all[5 * 1024..7 * 1024], some[..]);
        Ok(())
    }
}
