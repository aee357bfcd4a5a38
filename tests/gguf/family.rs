//! The model families: metadata and tensors of their files.

use candle_core::quantized::gguf_file::Value;

use crate::passes;

const VOCABULARY: usize = 67;
/// The sizes of the hidden state, a head, all queries, all keys, and the MLP's intermediate state. K-quants have blocks
/// of 256.
const WIDTH: usize = 256;
const HEAD: usize = 64;
const QUERIES: usize = 256;
const KEYS: usize = 128;
const INNER: usize = 512;
const EXPERTS: usize = 4;

pub type Spec = &'static [usize];
type Tensors = &'static [(&'static str, Spec)];

pub struct Family {
    pub name: &'static str,
    pub architecture: &'static str,
    /// Metadata beyond what all families have.
    extra: &'static [(&'static str, u32)],
    /// Whether the output has its own matrix; if not, it uses the embedding.
    tied: bool,
    /// Whether a rounded run can be compared: a router may choose another expert if two are nearly equal, and then the
    /// outputs are unrelated.
    pub steady: bool,
    /// Whether passes over parts of a text give the same as one pass over all of it: not with a sliding window, which
    /// candle-transformers applies to the prompt only.
    pub divides: bool,
    layer: &'static [Tensors],
}

#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    Family { name: "llama",       architecture: "llama",  extra: &[],    tied: true,  steady: true,  divides: true,  layer: &[NORMS, ATTENTION, MLP] },
    Family { name: "llama_moe",   architecture: "llama",  extra: MOE,    tied: false, steady: false, divides: true,  layer: &[NORMS, ATTENTION, MIXTURE] },
    Family { name: "qwen2",       architecture: "qwen2",  extra: &[],    tied: true,  steady: true,  divides: true,  layer: &[NORMS, ATTENTION, BIASES, MLP] },
    Family { name: "qwen3",       architecture: "qwen3",  extra: &[],    tied: false, steady: true,  divides: true,  layer: &[NORMS, ATTENTION, HEAD_NORMS, MLP] },
    Family { name: "phi3",        architecture: "phi3",   extra: &[],    tied: false, steady: true,  divides: true,  layer: &[NORMS, FUSED] },
    Family { name: "gemma3",      architecture: "gemma3", extra: WIDE,   tied: true,  steady: true,  divides: true,  layer: &[NORMS, ATTENTION, HEAD_NORMS, POST_NORMS, MLP] },
    Family { name: "gemma3_near", architecture: "gemma3", extra: NARROW, tied: true,  steady: true,  divides: false, layer: &[NORMS, ATTENTION, HEAD_NORMS, POST_NORMS, MLP] },
];

const MOE: &[(&str, u32)] = &[("expert_count", EXPERTS as u32), ("expert_used_count", 2)];

/// Wider than any text here.
const WIDE: &[(&str, u32)] = &[("attention.sliding_window", 64)];

/// Narrower than the prompt; one of the two layers attends to everything.
const NARROW: &[(&str, u32)] = &[
    ("attention.sliding_window", 4),
    ("attention.sliding_window_type", 2),
];

const NORMS: Tensors = &[("attn_norm", &[WIDTH]), ("ffn_norm", &[WIDTH])];

const ATTENTION: Tensors = &[
    ("attn_q", &[QUERIES, WIDTH]),
    ("attn_k", &[KEYS, WIDTH]),
    ("attn_v", &[KEYS, WIDTH]),
    ("attn_output", &[WIDTH, QUERIES]),
];

const BIASES: Tensors = &[
    ("attn_q.bias", &[QUERIES]),
    ("attn_k.bias", &[KEYS]),
    ("attn_v.bias", &[KEYS]),
];

const HEAD_NORMS: Tensors = &[("attn_q_norm", &[HEAD]), ("attn_k_norm", &[HEAD])];

const POST_NORMS: Tensors = &[
    ("post_attention_norm", &[WIDTH]),
    ("post_ffw_norm", &[WIDTH]),
];

const MLP: Tensors = &[
    ("ffn_gate", &[INNER, WIDTH]),
    ("ffn_up", &[INNER, WIDTH]),
    ("ffn_down", &[WIDTH, INNER]),
];

/// Queries, keys and values in one matrix; gate and up in another.
const FUSED: Tensors = &[
    ("attn_qkv", &[QUERIES + 2 * KEYS, WIDTH]),
    ("attn_output", &[WIDTH, QUERIES]),
    ("ffn_up", &[2 * INNER, WIDTH]),
    ("ffn_down", &[WIDTH, INNER]),
];

const MIXTURE: Tensors = &[
    ("ffn_gate_inp", &[EXPERTS, WIDTH]),
    ("ffn_gate.0", &[INNER, WIDTH]),
    ("ffn_gate.1", &[INNER, WIDTH]),
    ("ffn_gate.2", &[INNER, WIDTH]),
    ("ffn_gate.3", &[INNER, WIDTH]),
    ("ffn_up.0", &[INNER, WIDTH]),
    ("ffn_up.1", &[INNER, WIDTH]),
    ("ffn_up.2", &[INNER, WIDTH]),
    ("ffn_up.3", &[INNER, WIDTH]),
    ("ffn_down.0", &[WIDTH, INNER]),
    ("ffn_down.1", &[WIDTH, INNER]),
    ("ffn_down.2", &[WIDTH, INNER]),
    ("ffn_down.3", &[WIDTH, INNER]),
];

impl Family {
    pub fn metadata(&self) -> Vec<(String, Value)> {
        let heads = (QUERIES / HEAD) as u32;
        let common = [
            ("block_count", passes::layers() as u32),
            ("context_length", 64),
            ("embedding_length", WIDTH as u32),
            ("feed_forward_length", INNER as u32),
            ("attention.head_count", heads),
            ("attention.head_count_kv", (KEYS / HEAD) as u32),
            ("attention.key_length", HEAD as u32),
            ("attention.value_length", HEAD as u32),
            ("rope.dimension_count", HEAD as u32),
        ];
        let floats = [
            ("attention.layer_norm_rms_epsilon", 1e-5),
            ("rope.freq_base", 10_000.),
        ];
        let key = |key: &str| format!("{}.{key}", self.architecture);
        let numbers = common.iter().chain(self.extra);
        let numbers = numbers.map(|(k, v)| (key(k), Value::U32(*v)));
        let floats = floats.map(|(k, v)| (key(k), Value::F32(v)));
        let name = Value::String(self.architecture.to_string());
        // qwen3's code chooses the dtype of its angles by this: 0 is f32.
        let general = [
            ("general.architecture", name),
            ("general.dtype", Value::U32(0)),
        ];
        let general = general.map(|(k, v)| (k.to_string(), v));
        general.into_iter().chain(numbers).chain(floats).collect()
    }

    pub fn tensors(&self) -> Vec<(String, Spec)> {
        let mut all: Vec<(String, Spec)> = vec![
            ("token_embd.weight".to_string(), &[VOCABULARY, WIDTH]),
            ("output_norm.weight".to_string(), &[WIDTH]),
        ];
        if !self.tied {
            all.push(("output.weight".to_string(), &[VOCABULARY, WIDTH]));
        }
        for layer in 0..passes::layers() {
            for (name, dims) in self.layer.iter().copied().flatten() {
                let weight = if name.ends_with(".bias") {
                    ""
                } else {
                    ".weight"
                };
                all.push((format!("blk.{layer}.{name}{weight}"), dims));
            }
        }
        all
    }
}
