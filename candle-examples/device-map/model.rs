//! A LLaMA whose layers are distributed over several devices. candle-transformers' LLaMA takes one VarBuilder for one device, and its
//! layers are private, so the forward pass is written here with candle-nn's layers. Hidden states pass between devices through the host.

use candle_core::{DType, Device, Result, Tensor};
use candle_examples::generate::Causal;
use candle_nn::kv_cache::ConcatKvCache;
use candle_nn::{ops, rotary_emb, Embedding, Linear, Module, RmsNorm};
use candle_transformers::models::llama::Config;
use candle_transformers::utils::{build_causal_mask, repeat_kv};
use std::collections::HashMap;
use std::ops::Range;

/// A device and its range of layers.
pub struct Part {
    pub device: Device,
    pub layers: Range<usize>,
}

/// The device of a tensor by its name: the first device for what precedes the layers, the last for what follows them.
pub fn place<'a>(parts: &'a [Part], name: &str) -> &'a Device {
    let layer = name.strip_prefix("model.layers.");
    let layer = layer.and_then(|rest| rest.split('.').next()?.parse().ok());
    let of = |layer: usize| parts.iter().find(|part| part.layers.contains(&layer));
    let part = match layer {
        Some(layer) => of(layer),
        None if name.starts_with("model.embed_tokens") => parts.first(),
        None => parts.last(),
    };
    part.map_or(&Device::Cpu, |part| &part.device)
}

struct Layer {
    norms: [RmsNorm; 2],
    qkv: [Linear; 3],
    out: Linear,
    gate_up: [Linear; 2],
    down: Linear,
    cache: ConcatKvCache,
}

struct Stage {
    device: Device,
    /// (positions, head / 2)
    cos: Tensor,
    sin: Tensor,
    layers: Vec<Layer>,
}

pub struct Split {
    config: Config,
    /// Whether RoPE rotates adjacent elements, as llama2.c's weights require, or halves.
    neighbours: bool,
    embed: Embedding,
    stages: Vec<Stage>,
    norm: RmsNorm,
    head: Linear,
    last: Device,
}

/// cos and sin of position * theta^(-2i / head_dim).
fn angles(config: &Config, dtype: DType, device: &Device) -> Result<(Tensor, Tensor)> {
    let head = config.hidden_size / config.num_attention_heads;
    let half = head / 2;
    let frequency = |i| config.rope_theta.powf(-2. * i as f32 / head as f32);
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let positions = Tensor::arange(0u32, config.max_position_embeddings as u32, &Device::Cpu)?;
    let positions = positions.to_dtype(DType::F32)?.unsqueeze(1)?;
    let angles = positions.matmul(&Tensor::from_vec(frequencies, (1, half), &Device::Cpu)?)?;
    let on = |x: Tensor| x.to_dtype(dtype)?.to_device(device);
    Ok((on(angles.cos()?)?, on(angles.sin()?)?))
}

impl Split {
    /// Builds the model from weights that are on the devices that [`place`] gives, under the names of `models::llama`.
    pub fn new(
        config: Config,
        neighbours: bool,
        mut weights: HashMap<String, Tensor>,
        parts: &[Part],
    ) -> anyhow::Result<Self> {
        let eps = config.rms_norm_eps;
        let mut take = |name: &str| {
            let weight = weights.remove(&format!("{name}.weight"));
            weight.ok_or_else(|| anyhow::anyhow!("no tensor {name}"))
        };
        let embed = take("model.embed_tokens")?;
        let norm = take("model.norm")?;
        let (dtype, last) = (norm.dtype(), norm.device().clone());
        let head = match config.tie_word_embeddings {
            true => embed.to_device(&last)?,
            false => take("lm_head")?,
        };
        let mut stages = Vec::new();
        for part in parts {
            let (cos, sin) = angles(&config, dtype, &part.device)?;
            let mut stage = Stage {
                device: part.device.clone(),
                cos,
                sin,
                layers: Vec::new(),
            };
            for n in part.layers.clone() {
                let mut take = |part: &str| take(&format!("model.layers.{n}.{part}"));
                let norm = |weight| RmsNorm::new(weight, eps);
                let linear = |weight| Linear::new(weight, None);
                stage.layers.push(Layer {
                    norms: [
                        norm(take("input_layernorm")?),
                        norm(take("post_attention_layernorm")?),
                    ],
                    qkv: [
                        linear(take("self_attn.q_proj")?),
                        linear(take("self_attn.k_proj")?),
                        linear(take("self_attn.v_proj")?),
                    ],
                    out: linear(take("self_attn.o_proj")?),
                    gate_up: [linear(take("mlp.gate_proj")?), linear(take("mlp.up_proj")?)],
                    down: linear(take("mlp.down_proj")?),
                    cache: ConcatKvCache::new(2),
                });
            }
            stages.push(stage);
        }
        let width = config.hidden_size;
        Ok(Split {
            config,
            neighbours,
            embed: Embedding::new(embed, width),
            stages,
            norm: RmsNorm::new(norm, eps),
            head: Linear::new(head, None),
            last,
        })
    }

    /// The logits (vocab) after the last of `ids`, in f32.
    fn pass(&mut self, ids: &[u32], position: usize) -> Result<Tensor> {
        let embed = self.embed.embeddings().device();
        let mut x = self
            .embed
            .forward(&Tensor::new(ids, embed)?.unsqueeze(0)?)?;
        for stage in &mut self.stages {
            // Goes through the host if the devices differ.
            x = x.to_device(&stage.device)?;
            x = stage.pass(&self.config, self.neighbours, x, position)?;
        }
        let x = x.to_device(&self.last)?.narrow(1, ids.len() - 1, 1)?;
        let x = self.norm.forward(&x.contiguous()?)?.squeeze(1)?;
        self.head.forward(&x)?.squeeze(0)?.to_dtype(DType::F32)
    }
}

impl Stage {
    /// Maps (1, tokens, hidden) to the same shape.
    fn pass(
        &mut self,
        config: &Config,
        neighbours: bool,
        mut x: Tensor,
        position: usize,
    ) -> Result<Tensor> {
        let tokens = x.dim(1)?;
        let cos = self.cos.narrow(0, position, tokens)?;
        let sin = self.sin.narrow(0, position, tokens)?;
        let mask = match tokens {
            1 => None,
            _ => Some(build_causal_mask(tokens, position, &self.device)?),
        };
        let rope = |x: &Tensor| match neighbours {
            true => rotary_emb::rope_i(x, &cos, &sin),
            false => rotary_emb::rope(x, &cos, &sin),
        };
        for layer in &mut self.layers {
            if position == 0 {
                layer.cache.reset();
            }
            let attended = layer.attend(config, &layer.norms[0].forward(&x)?, rope, &mask)?;
            x = (x + attended)?;
            let y = layer.norms[1].forward(&x)?;
            let [gate, up] = &layer.gate_up;
            let y = (ops::silu(&gate.forward(&y)?)? * up.forward(&y)?)?;
            x = (x + layer.down.forward(&y)?)?;
        }
        Ok(x)
    }
}

impl Layer {
    /// softmax(q k^T / sqrt(head_dim)) v over the KV cache and x, in f32.
    fn attend(
        &mut self,
        config: &Config,
        x: &Tensor,
        rope: impl Fn(&Tensor) -> Result<Tensor>,
        mask: &Option<Tensor>,
    ) -> Result<Tensor> {
        let (batch, tokens, hidden) = x.dims3()?;
        let (heads, shared) = (config.num_attention_heads, config.num_key_value_heads);
        let width = hidden / heads;
        let split = |x: Tensor, heads: usize| {
            let x = x.reshape((batch, tokens, heads, width))?;
            x.transpose(1, 2)?.contiguous()
        };
        let [q, k, v] = &self.qkv;
        let q = rope(&split(q.forward(x)?, heads)?)?;
        let k = rope(&split(k.forward(x)?, shared)?)?;
        let v = split(v.forward(x)?, shared)?;
        let (k, v) = self.cache.append(&k, &v)?;
        let repeats = heads / shared;
        let (k, v) = (repeat_kv(k, repeats)?, repeat_kv(v, repeats)?);
        let [q, k, v] = [q, k, v].map(|x| x.to_dtype(DType::F32));
        let scores = (q?.matmul(&k?.t()?)? / (width as f64).sqrt())?;
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
        self.out.forward(&y.reshape((batch, tokens, hidden))?)
    }
}

impl Causal for Split {
    fn forward(
        &mut self,
        ids: &[u32],
        position: usize,
        _: &Device,
    ) -> candle_examples::Result<Tensor> {
        Ok(self.pass(ids, position)?)
    }
}
