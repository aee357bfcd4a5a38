// s = a + b, and y[r, c] = s[r, c] / sqrt(mean_c s[r, c]^2 + eps) * alpha[c], for rows of whole quads. A workgroup owns ROWS rows
// of n elements, a thread quads of a row.

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

struct Params { rows: u32, n: u32, a_offset: u32, b_offset: u32, alpha_offset: u32, eps: f32, inverse: f32, pad: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read> alpha: array<ALPHA>;
@group(0) @binding(4) var<storage, read_write> s: array<S>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> part: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group * ROWS >= p.rows { return; }
    let team = WORKGROUP / ROWS;
    let lane = thread % team;
    let row = group * ROWS + thread / team;
    // A team past the last row has nothing to do but the barriers.
    let live = row < p.rows;
    let first = select(0u, row * p.n / 4u, live);
    let end = select(0u, (row * p.n + p.n) / 4u, live);

    var sum = vec4<f32>();
    for (var q = first + lane; q < end; q += team) {
        s_quad_put(q, a_get4(p.a_offset / 4u + q) + b_get4(p.b_offset / 4u + q));
        // As it was rounded.
        let v = s_four(q);
        sum += v * v;
    }
    part[thread] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    for (var half = team / 2u; half > 0u; half /= 2u) {
        if lane < half { part[thread] += part[thread + half]; }
        workgroupBarrier();
    }
    let scale = 1.0 / sqrt(part[thread - lane] * p.inverse + p.eps);
    for (var q = first + lane; q < end; q += team) {
        y_quad_put(q, s_four(q) * scale * alpha_get4(p.alpha_offset / 4u + q - first));
    }
}
