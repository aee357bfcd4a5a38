//! The GGUF architectures that candle-transformers can run, one row each.

use crate::error::{Error, Result};
use crate::generate::Causal;
use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, IndexOp, Tensor};
use candle_transformers::models::{
    quantized_gemma3 as gemma3, quantized_llama as llama, quantized_phi3 as phi3,
    quantized_qwen2 as qwen2, quantized_qwen3 as qwen3,
};
use std::io::{Read, Seek};

/// A source of tensor data.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Maps ids (1, T) and the position of the first to logits (1, vocab). Position 0 clears the KV cache.
pub type Forward = Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor>>;

type Loading = candle_core::Result<Forward>;

pub struct Architecture {
    /// The value of `general.architecture`, and the prefix of metadata keys.
    pub name: &'static str,
    /// Positions for which candle-transformers computes RoPE angles; the file's own limit may be lower.
    pub positions: usize,
    pub load: fn(Content, &mut dyn Source, &Device) -> Loading,
}

#[rustfmt::skip]
pub static ARCHITECTURES: &[Architecture] = &[
    Architecture { name: "llama",  positions: llama::MAX_SEQ_LEN,  load: load_llama },
    Architecture { name: "qwen2",  positions: usize::MAX,          load: load_qwen2 },
    Architecture { name: "qwen3",  positions: usize::MAX,          load: load_qwen3 },
    Architecture { name: "phi3",   positions: usize::MAX,          load: load_phi3 },
    Architecture { name: "gemma3", positions: gemma3::MAX_SEQ_LEN, load: load_gemma3 },
];

pub fn find(name: Option<&str>) -> Result<&'static Architecture> {
    let found = ARCHITECTURES.iter().find(|a| Some(a.name) == name);
    found.ok_or_else(|| {
        let known: Vec<_> = ARCHITECTURES.iter().map(|a| a.name).collect();
        Error::Unsupported {
            what: format!(
                "the architecture `{}`, only {}",
                name.unwrap_or("(none)"),
                known.join(", ")
            ),
        }
    })
}

fn load_llama(file: Content, mut from: &mut dyn Source, device: &Device) -> Loading {
    let mut model = llama::ModelWeights::from_gguf(file, &mut from, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}

fn load_qwen2(file: Content, mut from: &mut dyn Source, device: &Device) -> Loading {
    let mut model = qwen2::ModelWeights::from_gguf(file, &mut from, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}

fn load_qwen3(file: Content, mut from: &mut dyn Source, device: &Device) -> Loading {
    let on_cpu = device.is_cpu();
    let mut model = qwen3::ModelWeights::from_gguf(file, &mut from, device)?;
    Ok(Box::new(move |ids, at| {
        // The other models clear their cache by themselves.
        if at == 0 {
            model.clear_kv_cache();
        }
        // On the CPU, the prompt cache does not see single-token steps, so a later prompt would miss those tokens.
        if on_cpu && at > 0 {
            return singly(ids, at, |id, at| model.forward(id, at));
        }
        model.forward(ids, at)
    }))
}

fn load_phi3(file: Content, mut from: &mut dyn Source, device: &Device) -> Loading {
    let mut model = phi3::ModelWeights::from_gguf(false, file, &mut from, device)?;
    Ok(Box::new(move |ids, at| model.forward(ids, at)))
}

fn load_gemma3(file: Content, mut from: &mut dyn Source, device: &Device) -> Loading {
    let mut model = gemma3::ModelWeights::from_gguf(file, &mut from, device)?;
    Ok(Box::new(move |ids, at| {
        // With cached tokens, the mask would concatenate f32 zeros, which would hide the cache, and u32
        // (huggingface/candle#3299). A single token needs no mask.
        if at > 0 {
            return singly(ids, at, |id, at| model.forward(id, at));
        }
        model.forward(ids, at)
    }))
}

/// Runs one forward pass per id; returns the logits of the last.
fn singly(
    ids: &Tensor,
    at: usize,
    mut forward: impl FnMut(&Tensor, usize) -> candle_core::Result<Tensor>,
) -> candle_core::Result<Tensor> {
    let mut logits = forward(&ids.narrow(1, 0, 1)?, at)?;
    for i in 1..ids.dim(1)? {
        logits = forward(&ids.narrow(1, i, 1)?, at + i)?;
    }
    Ok(logits)
}

/// A loaded model of any architecture.
pub struct Network(Forward);

impl Network {
    pub fn new(forward: Forward) -> Self {
        Self(forward)
    }
}

impl Causal for Network {
    fn logits(&mut self, ids: &Tensor, position: usize) -> Result<Tensor> {
        Ok((self.0)(ids, position)?.i(0)?)
    }
}
