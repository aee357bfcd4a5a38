// Where the queries of a KV head lie, and how many keys they see.

// slots: stands for what the kernels bring.
struct Params { queries: u32, keys: u32, kv_heads: u32, causal: u32 }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

// The first element of an attention matrix in an operand. `strides`: batch, KV head, query head of the KV head, query.
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 {
    return matrix / p.kv_heads * strides.x + matrix % p.kv_heads * strides.y;
}

// The first element of a row, from the start of its matrix.
fn row_at(row: u32, strides: vec4<u32>) -> u32 {
    return row / p.queries * strides.z + row % p.queries * strides.w;
}

// How many keys a row sees, but for its mask.
fn seen_by(row: u32) -> u32 { return seen(row % p.queries); }

fn seen(query: u32) -> u32 {
    let causal = u32(max(i32(query) + 1 + i32(p.keys) - i32(p.queries), 0));
    return select(p.keys, min(causal, p.keys), p.causal == 1u);
}
