// y[i] = reduction of x[i, r] over r, for n outputs of m elements each. A thread owns a word of y, or its partial result of one chunk of
// r. For short reductions, and if adjacent outputs are adjacent in x.

// slots: as it stands this file is the f32 sum.
alias X = f32;
alias Y = f32;
alias XV = f32;
alias YV = f32;
alias YL = vec4<f32>;
const Y_LANES = 1u;
alias Acc = f32;
fn x_get(i: u32) -> XV { return x[i]; }
fn y_word_put(w: u32, v: YL) { y[w] = v.x; }
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return a + b; }
fn acc_next(a: Acc, b: Acc) -> Acc { return acc_join(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a; }
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
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
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

fn reduced_at(r: u32) -> u32 {
    var rest = r;
    var at = 0u;
    for (var d = p.m_rank - 1u; d > 0u; d--) {
        let size = p.m_dims[d / 4u][d % 4u];
        let next = rest / size;
        at += (rest - next * size) * p.m_strides[d / 4u][d % 4u];
        rest = next;
    }
    return at + rest * p.m_strides[0][0];
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let item = id.x + id.y * groups.x * WORKGROUP;
    let words = (p.n + Y_LANES - 1u) / Y_LANES;
    let c = item / words;
    if c >= p.chunks { return; }
    let word = item - c * words;
    let start = c * p.chunk;
    let end = min(start + p.chunk, p.m);
    var out: YL;
    for (var lane = 0u; lane < Y_LANES; lane++) {
        let i = word * Y_LANES + lane;
        if i < p.n {
            let base = kept_at(i);
            var acc = acc_of(x_get(base + reduced_at(start)), start);
            var r = start + 1u;
            // Keeps four loads in flight.
            for (; r + 3u < end; r += 4u) {
                let v0 = x_get(base + reduced_at(r));
                let v1 = x_get(base + reduced_at(r + 1u));
                let v2 = x_get(base + reduced_at(r + 2u));
                let v3 = x_get(base + reduced_at(r + 3u));
                acc = acc_next(acc, acc_of(v0, r));
                acc = acc_next(acc, acc_of(v1, r + 1u));
                acc = acc_next(acc, acc_of(v2, r + 2u));
                acc = acc_next(acc, acc_of(v3, r + 3u));
            }
            for (; r < end; r++) {
                acc = acc_next(acc, acc_of(x_get(base + reduced_at(r)), r));
            }
            out[lane] = acc_end(acc, c + p.later == 0u, x_get(base));
        }
    }
    y_word_put(c * words + word, out);
}
