//! A LLaMA made of differentiable ops: candle-nn's fused norms, RoPE and softmax have no gradient.

use candle_core::{DType, Device, Module, Result, Tensor, D};
use candle_nn::ops::softmax;
use candle_nn::rotary_emb::rope_slow;
use candle_nn::{embedding, linear_no_bias, rms_norm, Embedding, Linear, RmsNorm, VarBuilder};

pub struct Config {
    pub vocab: usize,
    pub hidden: usize,
    pub inner: usize,
    pub layers: usize,
    pub heads: usize,
    pub context: usize,
}

impl Config {
    /// The model of the example `train`: 0.1 million parameters.
    pub fn small(vocab: usize, context: usize) -> Self {
        Self {
            vocab,
            hidden: 64,
            inner: 176,
            layers: 2,
            heads: 4,
            context,
        }
    }
}

pub struct Llama {
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    angles: Angles,
}

const EPS: f64 = 1e-5;

impl Llama {
    pub fn new(config: &Config, vb: VarBuilder) -> Result<Self> {
        let layers = (0..config.layers).map(|i| Layer::new(config, vb.pp(format!("layers.{i}"))));
        Ok(Self {
            embedding: embedding(config.vocab, config.hidden, vb.pp("embed_tokens"))?,
            layers: layers.collect::<Result<_>>()?,
            norm: rms_norm(config.hidden, EPS, vb.pp("norm"))?,
            head: linear_no_bias(config.hidden, config.vocab, vb.pp("lm_head"))?,
            angles: Angles::new(config, vb.device())?,
        })
    }

    /// Logits (batch, time, vocab) of ids (batch, time).
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let mut x = self.embedding.forward(ids)?;
        for layer in &self.layers {
            x = layer.forward(&x, &self.angles)?;
        }
        self.head.forward(&self.norm.forward_diff(&x)?)
    }
}

struct Layer {
    attention_norm: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    inner_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
    heads: usize,
}

impl Layer {
    fn new(config: &Config, vb: VarBuilder) -> Result<Self> {
        let (hidden, inner) = (config.hidden, config.inner);
        let linear = |input, output, name: &str| linear_no_bias(input, output, vb.pp(name));
        Ok(Self {
            attention_norm: rms_norm(hidden, EPS, vb.pp("input_layernorm"))?,
            query: linear(hidden, hidden, "self_attn.q_proj")?,
            key: linear(hidden, hidden, "self_attn.k_proj")?,
            value: linear(hidden, hidden, "self_attn.v_proj")?,
            out: linear(hidden, hidden, "self_attn.o_proj")?,
            inner_norm: rms_norm(hidden, EPS, vb.pp("post_attention_layernorm"))?,
            gate: linear(hidden, inner, "mlp.gate_proj")?,
            up: linear(hidden, inner, "mlp.up_proj")?,
            down: linear(inner, hidden, "mlp.down_proj")?,
            heads: config.heads,
        })
    }

    fn forward(&self, x: &Tensor, angles: &Angles) -> Result<Tensor> {
        let x = (x + self.attention(&self.attention_norm.forward_diff(x)?, angles)?)?;
        let inner = self.inner_norm.forward_diff(&x)?;
        let inner = (self.gate.forward(&inner)?.silu()? * self.up.forward(&inner)?)?;
        x + self.down.forward(&inner)?
    }

    fn attention(&self, x: &Tensor, angles: &Angles) -> Result<Tensor> {
        let (batch, time, hidden) = x.dims3()?;
        let size = hidden / self.heads;
        let heads = |linear: &Linear| {
            let x = linear
                .forward(x)?
                .reshape((batch, time, self.heads, size))?;
            x.transpose(1, 2)?.contiguous()
        };
        let (cos, sin) = angles.first(time)?;
        let query = rope_slow(&heads(&self.query)?, &cos, &sin)?;
        let key = rope_slow(&heads(&self.key)?, &cos, &sin)?;
        let scores = (query.matmul(&key.t()?)? / (size as f64).sqrt())?;
        let weights = softmax(&scores.broadcast_add(&angles.mask(time)?)?, D::Minus1)?;
        let mixed = weights.matmul(&heads(&self.value)?)?;
        self.out
            .forward(&mixed.transpose(1, 2)?.reshape((batch, time, hidden))?)
    }
}

/// What depends only on positions: the RoPE tables and the causal mask.
struct Angles {
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
}

impl Angles {
    fn new(config: &Config, device: &Device) -> Result<Self> {
        let (context, half) = (config.context, config.hidden / config.heads / 2);
        let frequency = |i| 10000f64.powf(-(i as f64) / half as f64);
        let angles = (0..context).flat_map(|t| (0..half).map(move |i| t as f64 * frequency(i)));
        let table = |f: fn(f64) -> f64| {
            let values = angles.clone().map(|a| f(a) as f32).collect();
            Tensor::from_vec(values, (context, half), device)
        };
        let later = (0..context).flat_map(|i| (0..context).map(move |j| j > i));
        let mask = later.map(|later| if later { f32::NEG_INFINITY } else { 0. });
        Ok(Self {
            cos: table(f64::cos)?,
            sin: table(f64::sin)?,
            mask: Tensor::from_iter(mask, device)?
                .reshape((context, context))?
                .to_dtype(DType::F32)?,
        })
    }

    fn first(&self, time: usize) -> Result<(Tensor, Tensor)> {
        Ok((self.cos.narrow(0, 0, time)?, self.sin.narrow(0, 0, time)?))
    }

    fn mask(&self, time: usize) -> Result<Tensor> {
        self.mask.narrow(0, 0, time)?.narrow(1, 0, time)
    }
}
