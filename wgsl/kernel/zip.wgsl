// y[i] = op(a[i], b[i]) for n elements. A thread owns four consecutive elements of y.

// slots: as it stands this file is the f32, contiguous, adding case.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias Y = vec4<f32>;
alias AV = f32;
alias BV = f32;
alias YV = f32;
alias AL = vec4<f32>;
alias BL = vec4<f32>;
alias YL = vec4<f32>;
fn a_quad(q: u32) -> AL { return a[p.a_offset / 4u + q]; }
fn b_quad(q: u32) -> BL { return b[p.b_offset / 4u + q]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn op(u: AV, v: BV) -> YV { return u + v; }
// end slots

struct Params {
    n: u32,
    rank: u32,
    a_offset: u32,
    b_offset: u32,
    pad: vec4<u32>,
    dims: array<vec4<u32>, 2>,
    a_strides: array<vec4<u32>, 2>,
    b_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q >= (p.n + 3u) / 4u { return; }
    let u = a_quad(q);
    let v = b_quad(q);
    y_quad_put(q, YL(op(u[0], v[0]), op(u[1], v[1]), op(u[2], v[2]), op(u[3], v[3])));
}
