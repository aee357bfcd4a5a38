//! The fusion rules: recorded ops with rules and without them give the same results, by fewer dispatches. Ops run on the batches of a
//! device of their own, with the kernels for GPUs.

mod bench;

mod add_norm;
mod attention;
mod concat;
mod dead_code;
mod elementwise;
mod fused_projections;
mod fused_row;
mod gemm_pair;
mod growing_cache;
mod matmul_epilogue;
mod norm_scale_lines;
mod order;
mod projection_bias;
mod qk_norm;
mod rms_norm;
mod rms_norm_matmul;
mod rope_attention;
mod rope_kv_cache;
mod rope_qk;
mod shared_block_mask;
mod shared_scale_lines;
mod softmax;
mod split_k;
mod split_softmax;
mod tiled_transpose;
