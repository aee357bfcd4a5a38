// y is x and w is u, each turned by the same cosines c and sines s, as in rope. A thread owns four consecutive elements of y or w,
// or four that are copied on the way.

// slots: as it stands this file is the f32 case of halves with everything in whole quads.
alias X = vec4<f32>;
alias C = vec4<f32>;
alias S = vec4<f32>;
alias Y = vec4<f32>;
alias U = vec4<f32>;
alias W = vec4<f32>;
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
fn u_turn(q: u32) -> vec4<f32> {
    let at = u_place(q * 4u);
    let half = p.d / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = u[(at.x + at.col) / 4u];
    let other = u[(at.x + select(at.col + half, i, second)) / 4u];
    let sines = s[(at.s + i) / 4u];
    return v * c[(at.c + i) / 4u] + select(-sines, sines, second) * other;
}
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
fn w_quad_put(q: u32, v: vec4<f32>) { w[q] = v; }
fn w_place(q: u32) -> u32 { return q; }
fn copy(q: u32) {}
// end slots

struct Side {
    n: u32,
    offset: u32,
    dims: vec2<u32>, // the two dims before d
    strides: vec4<u32>, // of the three dims before d
}
// Rows, counted in quads.
struct Part { n: u32, run: u32, source: u32, place: u32, source_stride: u32, place_stride: u32, pad: vec2<u32> }
struct Params {
    d: u32,
    c_offset: u32,
    s_offset: u32,
    x_d: u32, // stride along d
    c_strides: vec4<u32>,
    s_strides: vec4<u32>,
    sides: array<Side, 2>, // x and u
    parts: array<Part, 4>, // where w goes, and what is copied, if anything is
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> c: array<C>;
@group(0) @binding(3) var<storage, read> s: array<S>;
@group(0) @binding(4) var<storage, read_write> y: array<Y>;
@group(0) @binding(5) var<storage, read> u: array<U>;
@group(0) @binding(6) var<storage, read_write> w: array<W>;
override WORKGROUP: u32 = 64u;

// Where the row of element i of a side starts in x or u, in c and s, and its place in the row.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn place_in(side: Side, i: u32) -> Place {
    let r2 = i / p.d;
    let r1 = r2 / side.dims.y;
    let r0 = r1 / side.dims.x;
    let at = vec3<u32>(r0, r1 - r0 * side.dims.x, r2 - r1 * side.dims.y);
    return Place(
        i - r2 * p.d,
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
        y_quad_put(i, turn(i));
    } else if i < second {
        w_quad_put(w_place(i - first), u_turn(i - first));
    } else {
        copy(i - second);
    }
}
