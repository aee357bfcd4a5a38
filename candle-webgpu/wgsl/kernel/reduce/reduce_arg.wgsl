// y[i] = argmax or argmin of x[i, r] over the candidates r = won[c, i], one per chunk c. A thread owns an element of y.

// slots: as it stands this file is the argmax of f32, without NaN.
alias X = f32;
alias Y = u32;
alias WON = u32;
alias XV = f32;
alias YV = u32;
alias YL = vec4<u32>;
fn x_get(i: u32) -> XV { return x[i]; }
fn won_get(i: u32) -> u32 { return won[i]; }
fn y_word_put(w: u32, v: YL) { y[w] = v.x; }
struct Acc { v: XV, r: u32 }
fn acc_of(v: XV, r: u32) -> Acc { return Acc(v, r); }
fn acc_join(a: Acc, b: Acc) -> Acc { if b.v > a.v { return b; } return a; }
fn acc_next(a: Acc, b: Acc) -> Acc { return acc_join(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a.r; }
// end slots

struct Params {
    n: u32,
    m: u32,
    chunks: u32,
    chunk: u32, // elements of r in a chunk, at least one
    x_offset: u32,
    rank: u32,
    m_rank: u32,
    later: u32, // 1 if x is a part of the reduced tensor, and not the first one
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    m_dims: array<vec4<u32>, 2>,
    m_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> won: array<WON>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

fn kept_at(i: u32) -> u32 {
    var rest = i;
    var at = p.x_offset;
    for (var d = p.rank - 1u; d > 0u; d--) {
        let size = p.dims[d / 4u][d % 4u];
        let next = rest / size;
        at += (rest - next * size) * p.strides[d / 4u][d % 4u];
        rest = next;
    }
    return at + rest * p.strides[0][0];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * WORKGROUP;
    if i >= p.n { return; }
    let base = kept_at(i);
    var r = won_get(i);
    var acc = acc_of(x_get(base + r * p.m_strides[0][0]), r);
    for (var c = 1u; c < p.chunks; c++) {
        r = won_get(c * p.n + i);
        acc = acc_next(acc, acc_of(x_get(base + r * p.m_strides[0][0]), r));
    }
    y_word_put(i, YL(acc_end(acc, p.later == 0u, x_get(base))));
}
