// The rms_norm or, if CENTERED, the layer_norm of a sum, for rows of whole quads: with v = a + b,
// y[r, c] = (v[r, c] - mean_r) / sqrt(mean_c (v[r, c] - mean_r)^2 + eps) * alpha[c] + beta[c], where rms_norm has no mean and no beta.
// A workgroup owns ROWS rows of n elements; a thread owns quads of a row and keeps the first four in registers.

// slots: as it stands this file is the f32 case of an rms_norm that stores the sum.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias ALPHA = vec4<f32>;
alias Y = vec4<f32>;
alias S = vec4<f32>;
@group(0) @binding(5) var<storage, read_write> s: array<S>;
fn a_get4(q: u32) -> vec4<f32> { return a[q]; }
fn b_get4(q: u32) -> vec4<f32> { return b[q]; }
fn alpha_get4(q: u32) -> vec4<f32> { return alpha[q]; }
fn beta_four(q: u32) -> vec4<f32> { return vec4<f32>(); }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
fn s_store(q: u32, v: vec4<f32>) { s[q] = v; }
fn rounded(v: vec4<f32>) -> vec4<f32> { return v; }
const CENTERED = false;
fn thread_group_sum(thread: u32, thread_group: u32, v: vec4<f32>) -> f32 { return partial[thread] + v.x; }
// end slots

struct Params {
    rows: u32,
    n: u32,
    a_offset: u32,
    b_offset: u32,
    alpha_offset: u32,
    beta_offset: u32,
    eps: f32,
    inverse: f32, // 1 / n
    zero: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read> alpha: array<ALPHA>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> partial: array<f32, WORKGROUP>;

// Quad q of the sum, rounded to its dtype; 0 past the row.
fn added(q: u32, end: u32) -> vec4<f32> {
    if q >= end { return vec4<f32>(); }
    return rounded(a_get4(p.a_offset / 4u + q) + b_get4(p.b_offset / 4u + q));
}

fn stored(q: u32, end: u32) -> vec4<f32> {
    let v = added(q, end);
    if q < end { s_store(q, v); }
    return v;
}

fn square(q: u32, end: u32, v: vec4<f32>, mean: f32) -> vec4<f32> {
    if CENTERED && q >= end { return vec4<f32>(); }
    let far = v - vec4<f32>(mean);
    return far * far;
}

fn put(q: u32, first: u32, end: u32, v: vec4<f32>, scale: f32) {
    if q >= end { return; }
    let scaled = v * scale * alpha_get4(p.alpha_offset / 4u + q - first);
    if CENTERED {
        y_quad_put(q, scaled + beta_four(p.beta_offset / 4u + q - first));
    } else {
        y_quad_put(q, scaled);
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group * ROWS >= p.rows { return; }
    let thread_group = WORKGROUP / ROWS;
    let lane = thread % thread_group;
    let row = group * ROWS + thread / thread_group;
    // Thread groups past the last row only take part in the barriers.
    let live = row < p.rows;
    let first = select(0u, row * p.n / 4u, live);
    let end = select(0u, (row * p.n + p.n) / 4u, live);

    let q = first + lane;
    let far = q + 4u * thread_group;
    let v0 = stored(q, end);
    let v1 = stored(q + thread_group, end);
    let v2 = stored(q + 2u * thread_group, end);
    let v3 = stored(q + 3u * thread_group, end);
    var mean = 0.0;
    if CENTERED {
        var sum = (v0 + v1) + (v2 + v3);
        for (var i = far; i < end; i += thread_group) { sum += stored(i, end); }
        mean = thread_group_sum(thread, thread_group, sum) * p.inverse;
    }
    var squares = (square(q, end, v0, mean) + square(q + thread_group, end, v1, mean))
        + (square(q + 2u * thread_group, end, v2, mean) + square(q + 3u * thread_group, end, v3, mean));
    for (var i = far; i < end; i += thread_group) {
        if CENTERED {
            squares += square(i, end, added(i, end), mean);
        } else {
            squares += square(i, end, stored(i, end), mean);
        }
    }
    let scale = 1.0 / sqrt(thread_group_sum(thread, thread_group, squares) * p.inverse + p.eps);
    put(q, first, end, v0 - vec4<f32>(mean), scale);
    put(q + thread_group, first, end, v1 - vec4<f32>(mean), scale);
    put(q + 2u * thread_group, first, end, v2 - vec4<f32>(mean), scale);
    put(q + 3u * thread_group, first, end, v3 - vec4<f32>(mean), scale);
    for (var i = far; i < end; i += thread_group) { put(i, first, end, added(i, end) - vec4<f32>(mean), scale); }
}
