// y[i] = c[i] != 0 ? t[i] : f[i] for n elements, as bits. A thread owns SPAN quads of y, WORKGROUP apart, and loads all of them before
// it stores one.

// slots: as it stands this file is the u32 condition, 32-bit, contiguous case.
alias C = vec4<u32>;
alias T = vec4<u32>;
alias F = vec4<u32>;
alias Y = vec4<u32>;
alias CV = u32;
alias TV = u32;
alias CL = vec4<u32>;
alias TL = vec4<u32>;
alias FL = vec4<u32>;
alias YL = vec4<u32>;
fn c_quad(q: u32) -> CL { return c[p.c_offset / 4u + q]; }
fn t_quad(q: u32) -> TL { return t[p.t_offset / 4u + q]; }
fn f_quad(q: u32) -> FL { return f[p.f_offset / 4u + q]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn holds(c: CV) -> bool { return c != 0u; }
const SPAN = 1u;
// end slots

struct Params {
    n: u32,
    rank: u32,
    c_offset: u32,
    t_offset: u32,
    f_offset: u32,
    pad0: u32,
    pad1: vec2<u32>,
    dims: array<vec4<u32>, 2>,
    c_strides: array<vec4<u32>, 2>,
    t_strides: array<vec4<u32>, 2>,
    f_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> c: array<C>;
@group(0) @binding(2) var<storage, read> t: array<T>;
@group(0) @binding(3) var<storage, read> f: array<F>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

fn where_cond(c: CV, t: TV, f: TV) -> TV {
    if holds(c) { return t; }
    return f;
}

fn put(q: u32, c: CL, t: TL, f: FL) {
    y_quad_put(q, YL(where_cond(c[0], t[0], f[0]), where_cond(c[1], t[1], f[1]), where_cond(c[2], t[2], f[2]), where_cond(c[3], t[3], f[3])));
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
    let c = c_quad(q);
    let t = t_quad(q);
    let f = f_quad(q);
    if SPAN == 2u {
        let far = q + WORKGROUP;
        let near = min(far, end - 1u);
        let d = c_quad(near);
        let u = t_quad(near);
        let g = f_quad(near);
        if far < end { put(far, d, u, g); }
    }
    put(q, c, t, f);
}
