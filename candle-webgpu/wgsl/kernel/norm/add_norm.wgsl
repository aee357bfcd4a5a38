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
const SCALED = false; // whether y is divided by the scales of its rows: add_norm_scaled.wgsl
fn magnitude(v: vec4<f32>) -> f32 { return 0.0; }
fn line_scale(thread: u32, thread_group: u32, row: u32, most: f32) -> f32 { return 1.0; }
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

// Quad q of the sum, rounded to its dtype.
fn added(q: u32) -> vec4<f32> { return rounded(a_get4(p.a_offset / 4u + q) + b_get4(p.b_offset / 4u + q)); }

fn square(q: u32, end: u32, v: vec4<f32>, mean: f32) -> vec4<f32> {
    if CENTERED && q >= end { return vec4<f32>(); }
    let far = v - vec4<f32>(mean);
    return far * far;
}

// A quad of y; one to be scaled is rounded to the dtype of x, as it would be stored.
fn normalized(v: vec4<f32>, alpha: vec4<f32>, beta: vec4<f32>) -> vec4<f32> {
    var y = v * alpha;
    if CENTERED { y += beta; }
    if SCALED { return rounded(y); }
    return y;
}

// Quad q of y, of a row from `first` on.
fn normalized_at(q: u32, first: u32, mean: f32, scale: f32) -> vec4<f32> {
    let alpha = alpha_get4(p.alpha_offset / 4u + q - first);
    return normalized((added(q) - vec4<f32>(mean)) * scale, alpha, beta_four(p.beta_offset / 4u + q - first));
}

fn put(q: u32, v: vec4<f32>, by: f32) {
    if SCALED { y_quad_put(q, v * by); } else { y_quad_put(q, v); }
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
    // Quads past the row repeat its last one: loads in branches would wait for each other, and those behind the sum for it.
    let last = max(end, 1u) - 1u;
    var v: array<vec4<f32>, 4>;
    var alphas: array<vec4<f32>, 4>;
    var betas: array<vec4<f32>, 4>;
    for (var i = 0u; i < 4u; i++) { // unroll
        let at = min(q + i * thread_group, last);
        v[i] = added(at);
        alphas[i] = alpha_get4(p.alpha_offset / 4u + at - first);
        betas[i] = beta_four(p.beta_offset / 4u + at - first);
    }
    for (var i = 0u; i < 4u; i++) { // unroll
        let at = q + i * thread_group;
        if at < end { s_store(at, v[i]); } else { v[i] = vec4<f32>(); }
    }
    var mean = 0.0;
    if CENTERED {
        var sum = (v[0] + v[1]) + (v[2] + v[3]);
        for (var i = far; i < end; i += thread_group) {
            let more = added(i);
            s_store(i, more);
            sum += more;
        }
        mean = thread_group_sum(thread, thread_group, sum) * p.inverse;
    }
    var squares = (square(q, end, v[0], mean) + square(q + thread_group, end, v[1], mean))
        + (square(q + 2u * thread_group, end, v[2], mean) + square(q + 3u * thread_group, end, v[3], mean));
    for (var i = far; i < end; i += thread_group) {
        let more = added(i);
        if !CENTERED { s_store(i, more); }
        squares += square(i, end, more, mean);
    }
    let scale = 1.0 / sqrt(thread_group_sum(thread, thread_group, squares) * p.inverse + p.eps);
    for (var i = 0u; i < 4u; i++) { v[i] = normalized((v[i] - vec4<f32>(mean)) * scale, alphas[i], betas[i]); } // unroll
    var most = 0.0;
    if SCALED {
        for (var i = 0u; i < 4u; i++) { most = max(most, select(0.0, magnitude(v[i]), q + i * thread_group < end)); } // unroll
        for (var i = far; i < end; i += thread_group) { most = max(most, magnitude(normalized_at(i, first, mean, scale))); }
    }
    let by = line_scale(thread, thread_group, row, most);
    for (var i = 0u; i < 4u; i++) { // unroll
        let at = q + i * thread_group;
        if at < end { put(at, v[i], by); }
    }
    for (var i = far; i < end; i += thread_group) { put(i, normalized_at(i, first, mean, scale), by); }
}
