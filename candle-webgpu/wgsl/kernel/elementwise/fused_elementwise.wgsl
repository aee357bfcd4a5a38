// y[i] = an expression of elementwise steps on operands a[i], b[i], ... for n elements; each step rounds to its dtype as a store would.
// A thread owns SPAN quads of y, WORKGROUP apart, and loads all of them before it stores one.

// slots: as it stands this file is the f32, contiguous case of y = a * b.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias Y = vec4<f32>;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
fn a_quad(q: u32) -> vec4<f32> { return a[p.a_offset / 4u + q]; }
fn b_quad(q: u32) -> vec4<f32> { return b[p.b_offset / 4u + q]; }
struct In { a: vec4<f32>, b: vec4<f32> }
fn load(q: u32) -> In { return In(a_quad(q), b_quad(q)); }
fn steps(x: In) -> vec4<f32> { return kept(x.a * x.b); }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
const SPAN = 1u;
// end slots

struct View { dims: vec4<u32>, strides: vec4<u32> }
struct Params {
    n: u32,
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    d_offset: u32,
    e_offset: u32,
    f_offset: u32,
    zero: u32,
    scalars: array<vec4<u32>, 4>, // per step that has scalars: the bits of two compute values
    views: array<View, 4>, // per operand that is not flat
}
@group(0) @binding(0) var<uniform> p: Params;
override WORKGROUP: u32 = 64u;

// v itself. The xor with a zero that compilers do not know keeps them from fusing the operations before and after.
fn kept(v: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(p.zero)); }

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let q = (id.y * groups.x + id.x) * WORKGROUP * SPAN + thread;
    let end = (p.n + 3u) / 4u;
    if q >= end { return; }
    let u = load(q);
    if SPAN == 2u {
        let far = q + WORKGROUP;
        let v = load(min(far, end - 1u));
        if far < end { y_quad_put(far, steps(v)); }
    }
    y_quad_put(q, steps(u));
}
