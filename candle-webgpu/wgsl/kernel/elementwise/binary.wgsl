// y[i] = op(a[i], b[i]) for n elements. A thread owns SPAN quads of y, WORKGROUP apart, and loads all of them before it stores one.

// slots: as it stands this file is contiguous f32 addition.
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
const SPAN = 1u;
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

fn put(q: u32, u: AL, v: BL) {
    y_quad_put(q, YL(op(u[0], v[0]), op(u[1], v[1]), op(u[2], v[2]), op(u[3], v[3])));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let q = (id.y * groups.x + id.x) * WORKGROUP * SPAN + thread;
    let end = (p.n + 3u) / 4u;
    if q >= end { return; }
    let u = a_quad(q);
    let v = b_quad(q);
    if SPAN == 2u {
        let far = q + WORKGROUP;
        let near = min(far, end - 1u);
        let w = a_quad(near);
        let z = b_quad(near);
        if far < end { put(far, w, z); }
    }
    put(q, u, v);
}
