// y[i] = x[i] c[i] - x[j] s[i] and y[j] = x[i] s[i] + x[j] c[i] for cosines c, sines s and pairs (i, j) of a row: j is
// i + d / 2, or the neighbour of i. A thread owns four consecutive elements of y.

// slots: as it stands this file is the f32 case of halves with everything in whole quads.
alias X = vec4<f32>;
alias C = vec4<f32>;
alias S = vec4<f32>;
alias Y = vec4<f32>;
fn turn(q: u32) -> vec4<f32> {
    let at = place(q * 4u);
    let half = p.d / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = x[(at.x + at.col) / 4u];
    let other = x[(at.x + select(at.col + half, i, second)) / 4u];
    let sines = s[(at.s + i) / 4u];
    return v * c[(at.c + i) / 4u] + select(-sines, sines, second) * other;
}
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params {
    n: u32,
    d: u32,
    x_offset: u32,
    c_offset: u32,
    s_offset: u32,
    x_d: u32, // stride along d
    dims: vec2<u32>, // the two dims before d
    x_strides: vec4<u32>, // of the three dims before d
    c_strides: vec4<u32>,
    s_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> c: array<C>;
@group(0) @binding(3) var<storage, read> s: array<S>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

// Where the row of element i of y starts in x, c and s, and its place in the row.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn place(i: u32) -> Place {
    let r2 = i / p.d;
    let r1 = r2 / p.dims.y;
    let r0 = r1 / p.dims.x;
    let at = vec3<u32>(r0, r1 - r0 * p.dims.x, r2 - r1 * p.dims.y);
    let xs = at * p.x_strides.xyz;
    let cs = at * p.c_strides.xyz;
    let ss = at * p.s_strides.xyz;
    return Place(
        i - r2 * p.d,
        p.x_offset + xs.x + xs.y + xs.z,
        p.c_offset + cs.x + cs.y + cs.z,
        p.s_offset + ss.x + ss.y + ss.z,
    );
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q * 4u >= p.n { return; }
    y_quad_put(q, turn(q));
}
