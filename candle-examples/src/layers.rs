//! LLaMA layers as values, to spread a model over devices or processes: candle-transformers' LLaMA takes one device, and its layers are
//! private. A layer may hold a part of the heads and of the inner dim; its results are then partial sums.

use crate::error::Result;
use candle_core::quantized::QMatMul;
use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::kv_cache::ConcatKvCache;
use candle_nn::{ops, rotary_emb, Linear, Module, RmsNorm};
use candle_transformers::models::llama::{Config, Llama3RopeType};
use candle_transformers::utils::{build_causal_mask, repeat_kv};
use std::f32::consts::PI;
use std::ops::Range;

/// A weight matrix (out, in), dense or quantized.
#[derive(Clone, Debug)]
pub enum Projection {
    Dense(Linear),
    Quantized(QMatMul),
}

impl Projection {
    pub fn dense(weight: Tensor) -> Self {
        Self::Dense(Linear::new(weight, None))
    }

    /// Maps (.., in) to (.., out).
    pub fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self {
            Self::Dense(linear) => linear.forward(x),
            Self::Quantized(matrix) => matrix.forward(x),
        }
    }

    /// The rows of these ids (tokens), as (1, tokens, in).
    pub fn rows(&self, ids: &Tensor) -> CandleResult<Tensor> {
        match self {
            Self::Dense(linear) => linear.weight().index_select(ids, 0)?.unsqueeze(0),
            Self::Quantized(matrix) => matrix.embedding(ids)?.unsqueeze(0),
        }
    }
}

/// The part of a matrix that is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cut {
    Whole,
    Rows(Range<usize>),
    Columns(Range<usize>),
}

/// Where weights come from. Names are those of `models::llama` without `.weight`.
pub trait Weights {
    /// A matrix, of which `dims` are the rows and columns before the cut.
    fn matrix(&mut self, name: &str, dims: (usize, usize), cut: &Cut) -> Result<Projection>;

    /// A vector of `len` elements in the dtype of activations.
    fn vector(&mut self, name: &str, len: usize) -> Result<Tensor>;
}

/// What a stage computes: its layers, and of each layer its heads and its part of the inner dim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    pub layers: Range<usize>,
    pub heads: Range<usize>,
    /// All heads of keys and values that `heads` read.
    pub kv_heads: Range<usize>,
    pub inner: Range<usize>,
}

impl Share {
    /// Whole layers.
    pub fn layers(config: &Config, layers: Range<usize>) -> Self {
        Self {
            layers,
            heads: 0..config.num_attention_heads,
            kv_heads: 0..config.num_key_value_heads,
            inner: 0..config.intermediate_size,
        }
    }
}

/// The KV cache of one sequence, by layer.
pub type Cache = Vec<ConcatKvCache>;

struct Layer {
    norms: [RmsNorm; 2],
    qkv: [Projection; 3],
    out: Projection,
    gate_up: [Projection; 2],
    down: Projection,
}

/// The heads of a stage.
struct Heads {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Of each query head, the index of its key-value head (heads), where these are not repeated equally often.
    map: Option<Tensor>,
    /// Whether RoPE rotates adjacent elements, as the weights of llama2.c and GGUF require, or halves.
    adjacent: bool,
}

/// Consecutive layers on one device.
pub struct Stage {
    device: Device,
    /// (positions, head_dim / 2)
    cos: Tensor,
    sin: Tensor,
    heads: Heads,
    layers: Vec<Layer>,
}

/// The frequency of each pair of a head's elements (head_dim / 2).
fn frequencies(config: &Config) -> Vec<f32> {
    let head_dim = config.hidden_size / config.num_attention_heads;
    let frequency = |i| 1f32 / config.rope_theta.powf(i as f32 / head_dim as f32);
    let all = (0..head_dim).step_by(2).map(frequency);
    let Some(scaling) = &config.rope_scaling else {
        return all.collect();
    };
    if matches!(scaling.rope_type, Llama3RopeType::Default) {
        return all.collect();
    }
    let context = scaling.original_max_position_embeddings as f32;
    let (low, high) = (scaling.low_freq_factor, scaling.high_freq_factor);
    let scaled = |frequency: f32| {
        let length = 2. * PI / frequency;
        if length < context / high {
            return frequency;
        }
        if length > context / low {
            return frequency / scaling.factor;
        }
        let smooth = (context / length - low) / (high - low);
        (1. - smooth) * frequency / scaling.factor + smooth * frequency
    };
    all.map(scaled).collect()
}

/// cos and sin of position * frequency, (positions, head_dim / 2). Computed on the CPU, so that all adapters get the same.
fn angles(config: &Config, dtype: DType, device: &Device) -> CandleResult<(Tensor, Tensor)> {
    let frequencies = frequencies(config);
    let half = frequencies.len();
    let positions = Tensor::arange(0u32, config.max_position_embeddings as u32, &Device::Cpu)?;
    let positions = positions.to_dtype(DType::F32)?.unsqueeze(1)?;
    let angles = positions.matmul(&Tensor::from_vec(frequencies, (1, half), &Device::Cpu)?)?;
    let on = |x: Tensor| x.to_dtype(dtype)?.to_device(device);
    Ok((on(angles.cos()?)?, on(angles.sin()?)?))
}

impl Stage {
    /// Loads the share of a model. `adjacent`: RoPE rotates adjacent elements. `dtype` is that of activations.
    pub fn load(
        config: &Config,
        adjacent: bool,
        share: &Share,
        weights: &mut dyn Weights,
        (dtype, device): (DType, &Device),
    ) -> Result<Self> {
        let (cos, sin) = angles(config, dtype, device)?;
        let layers = share.layers.clone();
        let layers = layers.map(|n| Layer::load(config, n, share, weights));
        Ok(Self {
            device: device.clone(),
            cos,
            sin,
            heads: Heads::new(config, adjacent, share, device)?,
            layers: layers.collect::<Result<_>>()?,
        })
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An empty KV cache.
    pub fn cache(&self) -> Cache {
        self.layers.iter().map(|_| ConcatKvCache::new(2)).collect()
    }

    /// Maps (1, tokens, hidden) to the same shape. `position` is that of the first token and the number of cached ones; 0 clears the cache.
    /// `reduce` turns the result of attention and of the MLP from a partial sum (1, tokens, hidden) into the whole sum.
    pub fn forward(
        &self,
        mut x: Tensor,
        position: usize,
        cache: &mut Cache,
        reduce: &mut dyn FnMut(Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let tokens = x.dim(1)?;
        let cos = self.cos.narrow(0, position, tokens)?;
        let sin = self.sin.narrow(0, position, tokens)?;
        let mask = match tokens {
            1 => None,
            _ => Some(build_causal_mask(tokens, position, &self.device)?),
        };
        let rope = |x: &Tensor| match self.heads.adjacent {
            true => rotary_emb::rope_i(x, &cos, &sin),
            false => rotary_emb::rope(x, &cos, &sin),
        };
        for (layer, cache) in self.layers.iter().zip(cache) {
            if position == 0 {
                cache.reset();
            }
            let y = layer.norms[0].forward(&x)?;
            let y = layer.attend(&self.heads, &y, rope, &mask, cache)?;
            x = (x + reduce(y)?)?;
            let y = layer.norms[1].forward(&x)?;
            let [gate, up] = &layer.gate_up;
            let y = (ops::silu(&gate.forward(&y)?)? * up.forward(&y)?)?;
            x = (x + reduce(layer.down.forward(&y)?)?)?;
        }
        Ok(x)
    }
}

impl Heads {
    fn new(config: &Config, adjacent: bool, share: &Share, device: &Device) -> Result<Self> {
        let group = config.num_attention_heads / config.num_key_value_heads;
        let (heads, kv_heads) = (share.heads.len(), share.kv_heads.len());
        let first = share.kv_heads.start;
        let map = share.heads.clone().map(|head| head / group - first);
        let map: Vec<u32> = map.map(|kv_head| kv_head as u32).collect();
        let repeats = heads / kv_heads.max(1);
        let regular = (0..heads).all(|i| map[i] as usize == i / repeats.max(1));
        Ok(Self {
            heads,
            kv_heads,
            head_dim: config.hidden_size / config.num_attention_heads,
            map: match regular && repeats * kv_heads == heads {
                true => None,
                false => Some(Tensor::new(map, device)?),
            },
            adjacent,
        })
    }

    /// Repeats key or value heads (1, kv_heads, tokens, head_dim) for each query head.
    fn repeat(&self, x: Tensor) -> CandleResult<Tensor> {
        match &self.map {
            None => repeat_kv(x, self.heads / self.kv_heads),
            Some(map) => x.contiguous()?.index_select(map, 1),
        }
    }
}

impl Layer {
    fn load(config: &Config, n: usize, share: &Share, weights: &mut dyn Weights) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let head_dim = hidden / config.num_attention_heads;
        let wide = |heads: &Range<usize>| heads.start * head_dim..heads.end * head_dim;
        let kv = head_dim * config.num_key_value_heads;
        let cut = |all: usize, part: Range<usize>, cut: fn(Range<usize>) -> Cut| {
            if part == (0..all) {
                return Cut::Whole;
            }
            cut(part)
        };
        let q = cut(hidden, wide(&share.heads), Cut::Rows);
        let k = cut(kv, wide(&share.kv_heads), Cut::Rows);
        let out = cut(hidden, wide(&share.heads), Cut::Columns);
        let up = cut(inner, share.inner.clone(), Cut::Rows);
        let down = cut(inner, share.inner.clone(), Cut::Columns);
        let name = |part: &str| format!("model.layers.{n}.{part}");
        let mut norm = |part: &str| {
            let weight = weights.vector(&name(part), hidden)?;
            Ok::<_, crate::Error>(RmsNorm::new(weight, config.rms_norm_eps))
        };
        let norms = [norm("input_layernorm")?, norm("post_attention_layernorm")?];
        let mut matrix = |part: &str, dims, cut| weights.matrix(&name(part), dims, cut);
        Ok(Self {
            norms,
            qkv: [
                matrix("self_attn.q_proj", (hidden, hidden), &q)?,
                matrix("self_attn.k_proj", (kv, hidden), &k)?,
                matrix("self_attn.v_proj", (kv, hidden), &k)?,
            ],
            out: matrix("self_attn.o_proj", (hidden, hidden), &out)?,
            gate_up: [
                matrix("mlp.gate_proj", (inner, hidden), &up)?,
                matrix("mlp.up_proj", (inner, hidden), &up)?,
            ],
            down: matrix("mlp.down_proj", (hidden, inner), &down)?,
        })
    }

    /// softmax(q k^T / sqrt(head_dim)) v over the KV cache and x (1, tokens, hidden), in f32.
    fn attend(
        &self,
        heads: &Heads,
        x: &Tensor,
        rope: impl Fn(&Tensor) -> CandleResult<Tensor>,
        mask: &Option<Tensor>,
        cache: &mut ConcatKvCache,
    ) -> CandleResult<Tensor> {
        let (batch, tokens, _) = x.dims3()?;
        let split = |x: Tensor, count: usize| {
            let x = x.reshape((batch, tokens, count, heads.head_dim))?;
            x.transpose(1, 2)?.contiguous()
        };
        let [q, k, v] = &self.qkv;
        let q = rope(&split(q.forward(x)?, heads.heads)?)?;
        let k = rope(&split(k.forward(x)?, heads.kv_heads)?)?;
        let v = split(v.forward(x)?, heads.kv_heads)?;
        let (k, v) = cache.append(&k, &v)?;
        let (k, v) = (heads.repeat(k)?, heads.repeat(v)?);
        let [q, k, v] = [q, k, v].map(|x| x.to_dtype(DType::F32));
        let scores = (q?.matmul(&k?.t()?)? / (heads.head_dim as f64).sqrt())?;
        let scores = match mask {
            None => scores,
            Some(mask) => {
                let hidden = Tensor::new(f32::NEG_INFINITY, scores.device())?;
                let hidden = hidden.broadcast_as(scores.shape())?;
                mask.broadcast_as(scores.shape())?
                    .where_cond(&hidden, &scores)?
            }
        };
        let y = ops::softmax_last_dim(&scores)?.matmul(&v?.contiguous()?)?;
        let y = y.to_dtype(x.dtype())?.transpose(1, 2)?;
        let width = heads.heads * heads.head_dim;
        self.out.forward(&y.reshape((batch, tokens, width))?)
    }
}

/// What follows the layers: the last norm and the projection to logits.
pub struct Head {
    norm: RmsNorm,
    projection: Projection,
}

impl Head {
    /// Loads the head with these rows of the vocabulary; a tied model projects with its embedding.
    pub fn load(config: &Config, vocab: &Cut, weights: &mut dyn Weights) -> Result<Self> {
        let norm = weights.vector("model.norm", config.hidden_size)?;
        let name = match config.tie_word_embeddings {
            true => "model.embed_tokens",
            false => "lm_head",
        };
        let dims = (config.vocab_size, config.hidden_size);
        Ok(Self {
            norm: RmsNorm::new(norm, config.rms_norm_eps),
            projection: weights.matrix(name, dims, vocab)?,
        })
    }

    /// The logits (vocab) after the last token of x (1, tokens, hidden), in f32.
    pub fn logits(&self, x: &Tensor) -> CandleResult<Tensor> {
        let x = x.narrow(1, x.dim(1)? - 1, 1)?.contiguous()?;
        let x = self.norm.forward(&x)?.squeeze(1)?;
        self.projection
            .forward(&x)?
            .squeeze(0)?
            .to_dtype(DType::F32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 6 heads that share 2 key-value heads, of which a stage has heads 1 to 4.
    #[test]
    fn heads_find_their_keys_in_uneven_shares() -> Result<()> {
        let config = Config {
            hidden_size: 12,
            num_attention_heads: 6,
            num_key_value_heads: 2,
            ..Config::config_7b_v1(false)
        };
        let mut share = Share::layers(&config, 0..1);
        assert!(Heads::new(&config, false, &share, &Device::Cpu)?
            .map
            .is_none());
        share.heads = 1..5;
        let heads = Heads::new(&config, false, &share, &Device::Cpu)?;
        let x = Tensor::new(&[10f32, 20.], &Device::Cpu)?.reshape((1, 2, 1, 1))?;
        let x = heads.repeat(x)?.flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(x, [10., 10., 20., 20.]);
        Ok(())
    }
}
