// y[i] = op(x[i], a, b) for n elements. A thread owns SPAN quads of y, WORKGROUP apart, and loads all of them before it stores one.

// slots: as it stands this file is the f32, contiguous, identity case.
alias X = vec4<f32>;
alias Y = vec4<f32>;
alias XV = f32;
alias YV = f32;
alias XL = vec4<f32>;
alias YL = vec4<f32>;
fn x_quad(q: u32) -> XL { return x[p.x_offset / 4u + q]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn each(v: XL) -> YL { return v; }
const SPAN = 1u;
// end slots

struct Params {
    n: u32,
    rank: u32,
    x_offset: u32,
    pad: u32,
    a: vec2<u32>, // scalars: the bits of a compute value
    b: vec2<u32>,
    dims: array<vec4<u32>, 2>,
    x_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let q = (id.y * groups.x + id.x) * WORKGROUP * SPAN + thread;
    let end = (p.n + 3u) / 4u;
    if q >= end { return; }
    let u = x_quad(q);
    if SPAN == 2u {
        let far = q + WORKGROUP;
        let v = x_quad(min(far, end - 1u));
        if far < end { y_quad_put(far, each(v)); }
    }
    y_quad_put(q, each(u));
}
