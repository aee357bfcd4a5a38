// s = a + b; y[r, c] = s[r, c] / sqrt(mean_c s[r, c]^2 + eps) * alpha[c], for rows of whole quads. A workgroup owns ROWS rows of n
// elements; a thread owns quads of a row and keeps the first four in registers.

// slots: as it stands this file is the f32 case.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias ALPHA = vec4<f32>;
alias S = vec4<f32>;
alias Y = vec4<f32>;
fn a_get4(q: u32) -> vec4<f32> { return a[q]; }
fn b_get4(q: u32) -> vec4<f32> { return b[q]; }
fn alpha_get4(q: u32) -> vec4<f32> { return alpha[q]; }
fn s_quad_put(q: u32, v: vec4<f32>) { s[q] = v; }
fn s_four(q: u32) -> vec4<f32> { return s[q]; }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params { rows: u32, n: u32, a_offset: u32, b_offset: u32, alpha_offset: u32, eps: f32, inverse: f32, zero: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read> alpha: array<ALPHA>;
@group(0) @binding(4) var<storage, read_write> s: array<S>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> partial: array<f32, WORKGROUP>;

// Stores quad q of s and returns it as rounded to its dtype; 0 past the row.
fn added(q: u32, end: u32) -> vec4<f32> {
    if q >= end { return vec4<f32>(); }
    s_quad_put(q, a_get4(p.a_offset / 4u + q) + b_get4(p.b_offset / 4u + q));
    return s_four(q);
}

fn put(q: u32, first: u32, end: u32, v: vec4<f32>, scale: f32) {
    if q < end { y_quad_put(q, v * scale * alpha_get4(p.alpha_offset / 4u + q - first)); }
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
    let v0 = added(q, end);
    let v1 = added(q + thread_group, end);
    let v2 = added(q + 2u * thread_group, end);
    let v3 = added(q + 3u * thread_group, end);
    var sum = (v0 * v0 + v1 * v1) + (v2 * v2 + v3 * v3);
    for (var i = far; i < end; i += thread_group) {
        let v = added(i, end);
        sum += v * v;
    }
    partial[thread] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    for (var half = thread_group / 2u; half > 0u; half /= 2u) {
        if lane < half { partial[thread] += partial[thread + half]; }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(partial[thread - lane] * p.inverse + p.eps);
    put(q, first, end, v0, scale);
    put(q + thread_group, first, end, v1, scale);
    put(q + 2u * thread_group, first, end, v2, scale);
    put(q + 3u * thread_group, first, end, v3, scale);
    for (var i = far; i < end; i += thread_group) { put(i, first, end, s_four(i), scale); }
}
