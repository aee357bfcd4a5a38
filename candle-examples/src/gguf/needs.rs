//! The device memory that the model of a GGUF file needs.

use super::greatest;
use crate::needs::Needs;
use candle_core::quantized::gguf_file::Content;

/// The tensors as they are stored, but the embedding in f32: candle-transformers dequantizes it. A model without `output.weight` keeps the
/// stored embedding, too. Keys and values are f32.
pub fn needs(content: &Content) -> Needs {
    let tied = !content.tensor_infos.contains_key("output.weight");
    let sizes = content.tensor_infos.iter().flat_map(|(name, tensor)| {
        let (count, dtype) = (tensor.shape.elem_count(), tensor.ggml_dtype);
        let stored = count / dtype.block_size() * dtype.type_size();
        match name == "token_embd.weight" {
            true if tied => [stored, count * 4],
            true => [0, count * 4],
            false => [stored, 0],
        }
    });
    let greatest = |name| greatest(content, name);
    let heads = greatest("attention.head_count").max(1);
    let kv_heads = match greatest("attention.head_count_kv") {
        0 => heads,
        kv_heads => kv_heads,
    };
    let head_dim = match greatest("attention.key_length") {
        0 => greatest("embedding_length") / heads,
        length => length,
    };
    let cached = [2, greatest("block_count"), kv_heads, head_dim, 4];
    let cached = cached.into_iter().fold(1usize, usize::saturating_mul);
    Needs::of(sizes.map(|bytes| bytes as u64), cached as u64)
}
