// y[i] = reduction of x[i, r] over r, for n outputs of m elements each; quads of outputs are quads of x. A workgroup owns WORKGROUP / DOWN
// quads of y, or their partial results of one chunk of r; DOWN threads share a quad, stride along r and combine in a tree.

// slots: as it stands this file is the f32 sum.
alias X = vec4<f32>;
alias Y = vec4<f32>;
alias XV = f32;
alias XL = vec4<f32>;
alias YV = f32;
alias YL = vec4<f32>;
alias Acc = f32;
fn x_get4(at4: u32) -> XL { return x[at4]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
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
override WORKGROUP: u32 = 256u;
override DOWN: u32 = 8u; // a power of two

struct Accs { x: Acc, y: Acc, z: Acc, w: Acc }
var<workgroup> part: array<Accs, WORKGROUP>;

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

fn load(base: u32, r: u32) -> XL { return x_get4((base + reduced_at(r)) / 4u); }

fn accs_of(v: XL, r: u32) -> Accs {
    return Accs(acc_of(v[0], r), acc_of(v[1], r), acc_of(v[2], r), acc_of(v[3], r));
}

fn accs_join(a: Accs, b: Accs) -> Accs {
    return Accs(acc_join(a.x, b.x), acc_join(a.y, b.y), acc_join(a.z, b.z), acc_join(a.w, b.w));
}

// Requires that all of a comes before b.
fn accs_next(a: Accs, b: Accs) -> Accs {
    return Accs(acc_next(a.x, b.x), acc_next(a.y, b.y), acc_next(a.z, b.z), acc_next(a.w, b.w));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let group = wid.y * groups.x + wid.x;
    let across = WORKGROUP / DOWN;
    let quads = p.n / 4u;
    let sets = (quads + across - 1u) / across;
    let c = group / sets;
    if c >= p.chunks { return; }
    let quad = (group - c * sets) * across + thread % across;
    let down = thread / across;
    let start = c * p.chunk;
    // Threads past the last quad only take part in the barriers.
    let end = select(start, min(start + p.chunk, p.m), quad < quads);
    let busy = min(end - start, DOWN);
    let base = kept_at(quad * 4u);
    var accs: Accs;
    if down < busy {
        var r = start + down;
        accs = accs_of(load(base, r), r);
        r += DOWN;
        // Keeps four loads in flight.
        for (; r + 3u * DOWN < end; r += 4u * DOWN) {
            let v0 = load(base, r);
            let v1 = load(base, r + DOWN);
            let v2 = load(base, r + 2u * DOWN);
            let v3 = load(base, r + 3u * DOWN);
            accs = accs_next(accs, accs_of(v0, r));
            accs = accs_next(accs, accs_of(v1, r + DOWN));
            accs = accs_next(accs, accs_of(v2, r + 2u * DOWN));
            accs = accs_next(accs, accs_of(v3, r + 3u * DOWN));
        }
        for (; r < end; r += DOWN) { accs = accs_next(accs, accs_of(load(base, r), r)); }
    }
    for (var half = DOWN / 2u; half > 0u; half = half / 2u) {
        part[thread] = accs;
        workgroupBarrier();
        if down < half && down + half < busy { accs = accs_join(accs, part[thread + half * across]); }
        workgroupBarrier();
    }
    if down > 0u || quad >= quads { return; }
    let v = x_get4(base / 4u);
    let first = c + p.later == 0u;
    y_quad_put(
        c * quads + quad,
        YL(acc_end(accs.x, first, v[0]), acc_end(accs.y, first, v[1]), acc_end(accs.z, first, v[2]), acc_end(accs.w, first, v[3])),
    );
}
