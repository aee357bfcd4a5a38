// The parameters of flash, flash_decode, flash_decode_sub, flash_coop and block_mask. Row i of an attention matrix is one of the queries of all
// query heads that share a KV head (GQA).

// slots: makes this file a module.
@group(0) @binding(0) var<uniform> p: Params;
// end slots

struct Params {
    head_dim: u32,   // of q and k
    v_dim: u32,      // head_dim of v and y
    queries: u32,
    keys: u32,
    rows: u32,       // queries times the query heads of a KV head
    kv_heads: u32,
    matrices: u32,   // batch times kv_heads
    row_tiles: u32,  // the rows of a matrix, in workgroups
    splits: u32,     // of the keys
    split_keys: u32, // keys of a split
    causal: u32,
    scale: f32,      // divided by softcap, if there is one
    softcap: f32,    // 1 for none
    neg_inf: f32,
    nan: f32,
    lowest: f32,     // the least finite number
    offsets: vec4<u32>,       // of q, k, v and mask
    inner_strides: vec4<u32>, // of q, k, v and mask along their last dim
    q_strides: vec4<u32>,     // batch, KV head, query head of the KV head, query
    k_strides: vec4<u32>,     // batch, KV head, unused, key
    v_strides: vec4<u32>,     // as k_strides
    mask_strides: vec4<u32>,  // as q_strides
    y_strides: vec4<u32>,     // as q_strides, in quads
    fill_offset: u32,         // of what a mask puts in the place of scores
    // flash, flash_coop and block_mask:
    unit_rows: u32,    // row tiles do not cross units of rows, the queries of one head or of all
    block_tile: u32,   // words of the block mask from one row tile of a unit to the next,
    block_unit: u32,   // from one unit to the next,
    block_matrix: u32, // and from one matrix to the next; 0 where both have the same
    // rope_flash_decode:
    c_offset: u32,
    s_offset: u32,
    zero: u32,
    u_strides: vec4<u32>,     // of the newest keys: batch, KV head; their offset; the bits of eps of QK norms
    t_strides: vec4<u32>,     // of the newest values, likewise
    caches: vec4<u32>,        // the first quad of w, the quads of a KV head; the same of z
}
