// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n]. A workgroup owns a tile of BM x BN elements of y; a thread owns TM rows of TQ
// quads of columns, with ACROSS threads side by side along n.

// Overrides come first: naga 30 fails if one is used after an array whose size another decides.
override WORKGROUP: u32 = 256u; // THREADS
override A_ALONG_K: u32 = 1u;   // quads of a are contiguous along k, else along m
override B_ALONG_K: u32 = 0u;   // quads of b are contiguous along k, else along n
override WHOLE_K: u32 = 0u;     // k is a multiple of BK
override PAD: u32 = 4u;         // spreads stores along k over the memory banks

// slots: as it stands this file is the f32 case with both operands aligned and y of whole quads.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias Y = vec4<f32>;
const THREADS = 256u;
const ACROSS = 16u;
const TM = 4u;
const TQ = 1u;
const BK = 16u;
const A_UNIT = 4u; // elements per unit of a_from
fn tile_place(thread: u32, across: u32) -> vec2<u32> { return vec2<u32>(thread / across, thread % across); }
fn a_four(start: u32, at: vec2<u32>) -> vec4<f32> { return a[start]; } // at: row, k
var<private> b_from: vec2<u32>;
fn b_start(thread: u32, n0: u32, base: u32) { b_from = vec2<u32>(n0, base); }
var<private> b_k: u32;
fn b_fetch(thread: u32, n0: u32, k0: u32) { b_k = k0; }
fn b_stage(thread: u32) {
    for (var i = thread; i < BN * BK; i += THREADS) {
        let at = vec2<u32>(b_from.x, b_k) + vec2<u32>(i % BN, i / BN);
        let source = b_from.y + at.y * p.b_k + at.x * p.b_n;
        b_tile[i / BN * (BN + PAD) + i % BN] = select(0.0, b[source / 4u][source % 4u], at.x < p.n && at.y < p.k);
    }
}
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// Unrolled by the linker: compilers keep accumulators in registers only if no loop indexes them.
fn multiply(row: u32, col: u32) {
    for (var k = 0u; k < BK; k++) {
        for (var i = 0u; i < TM * TQ; i++) {
            acc[i] += a_tile[k * (BM + PAD) + row + i / TQ] * b_four(k, col + i % TQ * 4u * ACROSS);
        }
    }
}
fn keep(m: u32, n: u32, above: u32) {
    for (var i = 0u; i < TM * TQ; i++) { keep_four(m + i / TQ, n + i % TQ * 4u * ACROSS, above, acc[i]); }
}
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
struct Params {
    m: u32, n: u32, k: u32, batch: u32, groups: u32, rows: u32, a_offset: u32, b_offset: u32, a_m: u32, a_k: u32, b_k: u32, b_n: u32,
}
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;

const BM = THREADS / ACROSS * TM;
const BN = 4u * ACROSS * TQ;
const A_HOLD = (BM * BK / 4u + THREADS - 1u) / THREADS;
var<workgroup> a_tile: array<f32, BK * (BM + PAD)>;
var<workgroup> b_tile: array<f32, BK * (BN + PAD)>;
var<private> a_hold: array<vec4<f32>, A_HOLD>;
var<private> a_from: array<u32, A_HOLD>; // the next quads to fetch, in units
var<private> acc: array<vec4<f32>, TM * TQ>;

// The row or column, and the k, of quad q in a tile of `size` rows or columns.
fn place(q: u32, along_k: u32, size: u32) -> vec2<u32> {
    if along_k == 1u { return vec2<u32>(q / (BK / 4u), q % (BK / 4u) * 4u); }
    return vec2<u32>(q % (size / 4u) * 4u, q / (size / 4u));
}

// Clamps to the last quad of the matrix, since results past its edges are not stored. Single elements are checked one by one.
fn inside(at: u32, size: u32, along_k: u32, unit: u32) -> u32 {
    return select(at, min(at, size - select(4u, 1u, along_k == 1u)), unit == 4u);
}

fn a_start(thread: u32, m0: u32, base: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let at = place(thread + i * THREADS, A_ALONG_K, BM);
        a_from[i] = (base + inside(m0 + at.x, p.m, A_ALONG_K, A_UNIT) * p.a_m + at.y * p.a_k) / A_UNIT;
    }
}

// Fetches the thread's part of the tile of a at k0 into registers, with zeros past the end of k. `b_fetch` is its counterpart for b.
fn a_fetch(thread: u32, m0: u32, k0: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let at = place(thread + i * THREADS, A_ALONG_K, BM) + vec2<u32>(m0, k0);
        let live = WHOLE_K == 1u || at.y < p.k;
        a_hold[i] = vec4<f32>();
        if live && (A_UNIT == 4u || at.x < p.m) { a_hold[i] = a_four(a_from[i], at); }
        a_from[i] += BK * p.a_k / A_UNIT;
    }
}

fn a_stage(thread: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let q = thread + i * THREADS;
        if q < BM * BK / 4u {
            let at = place(q, A_ALONG_K, BM);
            let step = select(1u, BM + PAD, A_ALONG_K == 1u);
            let first = at.y * (BM + PAD) + at.x;
            a_tile[first] = a_hold[i].x;
            a_tile[first + step] = a_hold[i].y;
            a_tile[first + 2u * step] = a_hold[i].z;
            a_tile[first + 3u * step] = a_hold[i].w;
        }
    }
}

fn b_four(k: u32, n: u32) -> vec4<f32> {
    let at = k * (BN + PAD) + n;
    return vec4<f32>(b_tile[at], b_tile[at + 1u], b_tile[at + 2u], b_tile[at + 3u]);
}

fn keep_four(m: u32, n: u32, above: u32, v: vec4<f32>) {
    if m < p.m && n < p.n { y_put((above + m) * p.n + n, min(4u, p.n - n), v); }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let batch = group / p.groups;
    if batch >= p.batch { return; }
    let tile = group % p.groups;
    let m0 = tile % p.rows * BM;
    let n0 = tile / p.rows * BN;
    let base = bases(batch);

    let own = tile_place(thread, ACROSS) * vec2<u32>(TM, 4u);
    a_start(thread, m0, base.x);
    b_start(thread, n0, base.y);
    a_fetch(thread, m0, 0u);
    b_fetch(thread, n0, 0u);
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        a_stage(thread);
        b_stage(thread);
        workgroupBarrier();
        if k0 + BK < p.k {
            a_fetch(thread, m0, k0 + BK);
            b_fetch(thread, n0, k0 + BK);
        }
        multiply(own.x, own.y);
        workgroupBarrier();
    }
    keep(m0 + own.x, n0 + own.y, batch * p.m);
}
