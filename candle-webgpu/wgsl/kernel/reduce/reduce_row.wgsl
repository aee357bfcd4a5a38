// y[i] = reduction of x[i, r] over r, for n outputs of m elements each. A workgroup owns ROWS outputs, or their partial results of one
// chunk of r; a thread group shares an output, strides along r by UNIT elements and combines in a tree.

// slots: as it stands this file is the f32 sum of rows of whole quads.
alias X = vec4<f32>;
alias Y = f32;
alias XV = f32;
alias YV = f32;
alias YL = vec4<f32>;
const Y_LANES = 1u;
alias Unit = vec4<f32>;
const UNIT = 4u;
alias Acc = f32;
fn x_unit(base: u32, r: u32) -> Unit { return x[(base + r) / 4u]; }
fn x_first(base: u32) -> XV { return x[base / 4u].x; }
fn y_word_put(w: u32, v: YL) { y[w] = v.x; }
fn acc_unit(v: Unit, r: u32) -> Acc { return (v.x + v.y) + (v.z + v.w); }
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
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two, and whole words of y
var<workgroup> part: array<Acc, WORKGROUP>;

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

fn one(base: u32, r: u32) -> Acc { return acc_unit(x_unit(base, r), r); }

// Keeps four loads in flight.
fn four(base: u32, r: u32, step: u32) -> Acc {
    let v0 = x_unit(base, r);
    let v1 = x_unit(base, r + step);
    let v2 = x_unit(base, r + 2u * step);
    let v3 = x_unit(base, r + 3u * step);
    let a = acc_next(acc_unit(v0, r), acc_unit(v1, r + step));
    return acc_next(a, acc_next(acc_unit(v2, r + 2u * step), acc_unit(v3, r + 3u * step)));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let group = wid.y * groups.x + wid.x;
    let block = group / p.chunks;
    if block * ROWS >= p.n { return; }
    let c = group - block * p.chunks;
    let thread_group = WORKGROUP / ROWS;
    let lane = thread % thread_group;
    let i = block * ROWS + thread / thread_group;
    // Thread groups past the last output only take part in the barriers.
    let start = c * p.chunk;
    let end = select(start, min(start + p.chunk, p.m), i < p.n);
    let busy = min((end - start) / UNIT, thread_group);
    if lane < busy {
        let base = kept_at(i);
        let step = thread_group * UNIT;
        var r = start + lane * UNIT;
        var acc: Acc;
        if r + 3u * step < end {
            acc = four(base, r, step);
            r += 4u * step;
            for (; r + 3u * step < end; r += 4u * step) { acc = acc_next(acc, four(base, r, step)); }
        } else {
            acc = one(base, r);
            r += step;
        }
        for (; r < end; r += step) { acc = acc_next(acc, one(base, r)); }
        part[thread] = acc;
    }
    for (var half = thread_group / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if lane < half && lane + half < busy { part[thread] = acc_join(part[thread], part[thread + half]); }
    }
    workgroupBarrier();
    let first = block * ROWS + thread * Y_LANES;
    if thread * Y_LANES >= ROWS || first >= p.n { return; }
    var out: YL;
    for (var k = 0u; k < min(Y_LANES, p.n - first); k++) {
        let acc = part[(thread * Y_LANES + k) * thread_group];
        out[k] = acc_end(acc, c + p.later == 0u, x_first(kept_at(first + k)));
    }
    y_word_put(c * ((p.n + Y_LANES - 1u) / Y_LANES) + first / Y_LANES, out);
}
