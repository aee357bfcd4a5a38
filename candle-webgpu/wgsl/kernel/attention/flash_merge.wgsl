// Combines the partial results of split keys: with the accumulators x[i, s], maxima m[i, s] and sums of weights w[i, s] of the splits s
// of row i, and e[i, s] = exp(m[i, s] - max_s m[i, s]): y[i, c] = sum_s e[i, s] x[i, s, c] / sum_s e[i, s] w[i, s].
// A thread owns four consecutive elements of y. Threads of a row are a power of two, and only batches and several queries are divided for,
// since divisions take long.

// slots: as it stands this file is the f32 case.
alias X = vec4<f32>;
alias Y = vec4<f32>;
fn x_get4(at4: u32) -> vec4<f32> { return x[at4]; }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params {
    all_rows: u32,  // of all attention matrices
    row_quads: u32, // of a row of y
    splits: u32,
    nan: f32,
    queries: u32,   // this and the next as in the parameters of the other kernels
    rows: u32,
    kv_heads: u32,
    y_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * WORKGROUP;
    let shift = 32u - countLeadingZeros(p.row_quads - 1u);
    let column = i & ((1u << shift) - 1u);
    let row = i >> shift;
    if row >= p.all_rows || column >= p.row_quads { return; }
    var at = row * p.splits * (p.row_quads + 1u);
    var running_max = x_get4(at + p.row_quads).x;
    var acc = vec4<f32>();
    var weight_sum = 0.0;
    for (var s = 0u; s < p.splits; s++) {
        // Behind the accumulators of a split: its maximum and its sum of weights.
        let split = x_get4(at + p.row_quads);
        let new_max = max(running_max, split.x);
        let rescale = exp(running_max - new_max);
        let scale = exp(split.x - new_max);
        running_max = new_max;
        weight_sum = weight_sum * rescale + split.y * scale;
        acc = acc * rescale + x_get4(at + column) * scale;
        at += p.row_quads + 1u;
    }
    let matrix = row / p.rows;
    var heads = vec2<u32>(0u, matrix);
    if matrix >= p.kv_heads { heads = vec2<u32>(matrix / p.kv_heads, matrix % p.kv_heads); }
    var queries = vec2<u32>(row - matrix * p.rows, 0u);
    if p.queries > 1u { queries = vec2<u32>(queries.x / p.queries, queries.x % p.queries); }
    let to = dot(vec4<u32>(heads, queries), p.y_strides);
    y_quad_put(to + column, select(acc / weight_sum, vec4<f32>(p.nan), weight_sum == 0.0));
}
