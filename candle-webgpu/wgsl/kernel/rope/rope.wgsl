// RoPE: y[i] = x[i] c[i] - x[j] s[i] and y[j] = x[i] s[i] + x[j] c[i] for cosines c, sines s and the pairs (i, j) of a row: j is
// i + head_dim / 2, or i + 1 for even i. A thread owns four consecutive elements of y.

// slots: as it stands this file is the f32 case in whole quads, without the second element of a pair (see rotate.wgsl).
alias X = vec4<f32>;
alias C = vec4<f32>;
alias S = vec4<f32>;
alias Y = vec4<f32>;
fn rotate(q: u32) -> vec4<f32> {
    let at = place(q * 4u);
    return x[(at.x + at.col) / 4u] * c[(at.c + at.col) / 4u] + s[(at.s + at.col) / 4u];
}
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params {
    n: u32,
    head_dim: u32,
    x_offset: u32,
    c_offset: u32,
    s_offset: u32,
    x_inner_stride: u32, // along head_dim
    dims: vec2<u32>, // the two dims before head_dim
    x_strides: vec4<u32>, // of the three dims before head_dim
    c_strides: vec4<u32>,
    s_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> c: array<C>;
@group(0) @binding(3) var<storage, read> s: array<S>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

// The column of an element of y, and where its row starts in x, c and s.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn place(i: u32) -> Place {
    let r2 = i / p.head_dim;
    let r1 = r2 / p.dims.y;
    let r0 = r1 / p.dims.x;
    let at = vec3<u32>(r0, r1 - r0 * p.dims.x, r2 - r1 * p.dims.y);
    let xs = at * p.x_strides.xyz;
    let cs = at * p.c_strides.xyz;
    let ss = at * p.s_strides.xyz;
    return Place(
        i - r2 * p.head_dim,
        p.x_offset + xs.x + xs.y + xs.z,
        p.c_offset + cs.x + cs.y + cs.z,
        p.s_offset + ss.x + ss.y + ss.z,
    );
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q * 4u >= p.n { return; }
    y_quad_put(q, rotate(q));
}
