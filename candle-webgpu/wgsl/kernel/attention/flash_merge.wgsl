// Combines the partial results of split keys: with the accumulators x[i, s], maxima m[i, s] and sums of weights w[i, s] of the splits s
// of row i, and e[i, s] = exp(m[i, s] - max_s m[i, s]): y[i, c] = sum_s e[i, s] x[i, s, c] / sum_s e[i, s] w[i, s].
// A thread owns four consecutive elements of y.

// slots: as it stands this file is the f32 case.
alias X = vec4<f32>;
alias Y = vec4<f32>;
fn x_get4(at4: u32) -> vec4<f32> { return x[at4]; }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params {
    quads: u32,     // of y
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
    let quad = id.x + id.y * groups.x * WORKGROUP;
    if quad >= p.quads { return; }
    let column = quad % p.row_quads;
    let row = quad / p.row_quads;
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
    let head = row % p.rows / p.queries;
    let to = dot(vec4<u32>(matrix / p.kv_heads, matrix % p.kv_heads, head, row % p.queries), p.y_strides);
    y_quad_put(to + column, select(acc / weight_sum, vec4<f32>(p.nan), weight_sum == 0.0));
}
