// y[r, c] = x[r, c] / sqrt(mean_c x[r, c]^2 + eps) * alpha[c]. A workgroup owns ROWS rows of n elements; a thread owns
// quads of a row and keeps the first four in registers. A quad that spans two rows is processed by both, lane by lane.

// slots: as it stands this file is the f32 case with rows of whole quads.
alias X = vec4<f32>;
alias ALPHA = vec4<f32>;
alias Y = vec4<f32>;
const WHOLE = true;
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return x[p.x_offset / 4u + q]; }
fn alpha_four(q: u32, first: u32, end: u32) -> vec4<f32> { return alpha[p.alpha_offset / 4u + q - first / 4u]; }
fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params { rows: u32, n: u32, x_offset: u32, alpha_offset: u32, beta_offset: u32, eps: f32, inverse: f32, pad: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> alpha: array<ALPHA>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> partial: array<f32, WORKGROUP>;

// Which lanes of quad q lie in the row first .. end.
fn inside(q: u32, first: u32, end: u32) -> vec4<bool> {
    if WHOLE { return vec4<bool>(true); }
    let at = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return (at >= vec4<u32>(first)) & (at < vec4<u32>(end));
}

// Quad q of x, 0 in the lanes outside of the row.
fn x_in(q: u32, first: u32, end: u32) -> vec4<f32> {
    if q * 4u >= end { return vec4<f32>(); }
    return select(vec4<f32>(), x_four(q, first, end), inside(q, first, end));
}

fn put(q: u32, first: u32, end: u32, v: vec4<f32>, scale: f32) {
    if q * 4u < end { y_four(q, first, end, v * scale * alpha_four(q, first, end)); }
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
    let first = select(0u, row * p.n, live);
    let end = select(0u, row * p.n + p.n, live);
    let q = first / 4u + lane;
    let far = q + 4u * thread_group;
    let v0 = x_in(q, first, end);
    let v1 = x_in(q + thread_group, first, end);
    let v2 = x_in(q + 2u * thread_group, first, end);
    let v3 = x_in(q + 3u * thread_group, first, end);
    var sum = (v0 * v0 + v1 * v1) + (v2 * v2 + v3 * v3);
    for (var i = far; i * 4u < end; i += thread_group) {
        let v = x_in(i, first, end);
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
    for (var i = far; i * 4u < end; i += thread_group) { put(i, first, end, x_four(i, first, end), scale); }
}
