// RoPE of two operands: y is x and w is u, or their rms_norms, both rotated by the same cosines c and sines s, as in rope. A thread owns
// four consecutive elements of y or w, or of a copy into the KV cache (see kv_copy.wgsl).

// slots: as it stands this file is the f32 case in whole quads, without the second element of a pair (see rotate.wgsl).
alias X = vec4<f32>;
alias C = vec4<f32>;
alias S = vec4<f32>;
alias Y = vec4<f32>;
alias U = vec4<f32>;
alias W = vec4<f32>;
fn rotate(q: u32) -> vec4<f32> {
    let at = place(q * 4u);
    return x[(at.x + at.col) / 4u] * c[(at.c + at.col) / 4u] + s[(at.s + at.col) / 4u];
}
fn u_rotate(q: u32) -> vec4<f32> { return u[u_place(q * 4u).x / 4u]; }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
fn w_quad_put(q: u32, v: vec4<f32>) { w[q] = v; }
fn w_place(q: u32) -> u32 { return q; }
fn copy(q: u32) {}
// end slots

struct Side {
    n: u32,
    offset: u32,
    dims: vec2<u32>, // the two dims before head_dim
    strides: vec4<u32>, // of the three dims before head_dim
}
// n quads in rows of `run`, copied from `source` to `place`; strides are those of rows, in quads.
struct Part { n: u32, run: u32, source: u32, place: u32, source_stride: u32, place_stride: u32, pad: vec2<u32> }
struct Params {
    head_dim: u32,
    c_offset: u32,
    s_offset: u32,
    x_inner_stride: u32, // along head_dim
    c_strides: vec4<u32>,
    s_strides: vec4<u32>,
    sides: array<Side, 2>, // x and u
    parts: array<Part, 4>, // of the KV cache: where w goes, then the copies
    eps: f32, // of the rms_norms of x and u
    zero: u32,
    pad: vec2<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> c: array<C>;
@group(0) @binding(3) var<storage, read> s: array<S>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
@group(0) @binding(5) var<storage, read> u: array<U>;
@group(0) @binding(6) var<storage, read_write> w: array<W>;
override WORKGROUP: u32 = 64u;

// The column of an element of a side, and where its row starts in x or u, in c and in s.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn place_in(side: Side, i: u32) -> Place {
    let r2 = i / p.head_dim;
    let r1 = r2 / side.dims.y;
    let r0 = r1 / side.dims.x;
    let at = vec3<u32>(r0, r1 - r0 * side.dims.x, r2 - r1 * side.dims.y);
    return Place(
        i - r2 * p.head_dim,
        side.offset + dot(at, side.strides.xyz),
        p.c_offset + dot(at, p.c_strides.xyz),
        p.s_offset + dot(at, p.s_strides.xyz),
    );
}

fn place(i: u32) -> Place { return place_in(p.sides[0], i); }
fn u_place(i: u32) -> Place { return place_in(p.sides[1], i); }

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * WORKGROUP;
    let first = (p.sides[0].n + 3u) / 4u;
    let second = first + (p.sides[1].n + 3u) / 4u;
    if i < first {
        y_quad_put(i, rotate(i));
    } else if i < second {
        w_quad_put(w_place(i - first), u_rotate(i - first));
    } else {
        copy(i - second);
    }
}
