enable f16;
enable wgpu_cooperative_matrix;

// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] with cooperative matrices. A workgroup of four subgroups owns a tile of
// BM rows and BN columns of y, a subgroup WM rows and WN columns in pieces of 16 x 16.
//
// `a` and `b` are only read, but bound as if they were written: NVIDIA's compiler (driver 580) otherwise moves the loads of the
// next tile behind the products of this one, where nothing hides their latency.

// slots: as it stands this file is the case of 128 x 128 and y of whole quads of f32.
alias Y = vec4<f32>;
const BM = 128u;
const BN = 128u;
const WM = 64u;
const WN = 64u;
const BK = 32u;
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
fn scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> { return v; }
// Written out by the linker: compilers keep sums in registers only where no loop indexes them, and loads of pieces overlap
// products only in one block.
fn multiply(row: u32, col: u32) {
    for (var k = 0u; k < BK; k += 16u) {
        for (var j = 0u; j < JS; j++) {
            let by = right(k, col + j * 16u);
            for (var i = 0u; i < IS; i++) { sums[i * JS + j] = coopMultiplyAdd(left(row + i * 16u, k), by, sums[i * JS + j]); }
        }
    }
}
fn keep(at: Piece) {
    for (var j = 0u; j < JS; j++) {
        for (var i = 0u; i < IS; i++) { keep_piece(sums[i * JS + j], at, i * 16u, j * 16u); }
    }
}
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
// end slots

struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32, // workgroups of one matrix
    rows: u32,   // tiles along m
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: vec4<u32>, // of the batch
    a_batch: vec4<u32>,
    b_batch: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override A_ALONG_K: u32 = 1u; // quads of a run along k, else along m
override B_ALONG_K: u32 = 1u; // quads of b run along k, else along n
override WHOLE_K: u32 = 1u;   // k is a multiple of BK

const PAD = 8u;     // elements between the lines of a tile, so that the rows of a piece lie on different banks
const BAND = 8u;    // tiles along m that go along n together, so that they share columns of b in the cache
const SCRATCH = 16u; // elements between the rows of a piece of y
const THREADS = 128u;
const A_HOLD = BM * BK / 4u / THREADS;
const B_HOLD = BN * BK / 4u / THREADS;
const IS = WM / 16u;
const JS = WN / 16u;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
var<workgroup> a_tile: array<vec4<f16>, max(BM * (BK + PAD), BK * (BM + PAD)) / 4u>;
var<workgroup> b_tile: array<vec4<f16>, max(BN * (BK + PAD), BK * (BN + PAD)) / 4u>;
var<workgroup> y_tile: array<f32, 4u * 16u * SCRATCH>;
var<private> a_hold: array<vec4<f16>, A_HOLD>;
var<private> b_hold: array<vec4<f16>, B_HOLD>;
var<private> a_from: array<u32, A_HOLD>; // the next quads to fetch
var<private> b_from: array<u32, B_HOLD>;
var<private> a_first: vec2<u32>; // row or column, and k, of the thread's first quads
var<private> b_first: vec2<u32>;
var<private> sums: array<Sum, IS * JS>;

// Row or column, and k, of a thread's first quad of a tile with `size` rows or columns. Lines of 32 elements are taken in an
// order that keeps the two lines of half a subgroup on different banks.
fn first(thread: u32, along_k: u32, size: u32) -> vec2<u32> {
    if along_k == 1u {
        var line = thread / (BK / 4u);
        if BK == 32u { line = (line & 8u) | ((line & 1u) << 2u) | (line >> 1u & 3u); }
        return vec2<u32>(line, thread % (BK / 4u) * 4u);
    }
    return vec2<u32>(thread % (size / 4u) * 4u, thread / (size / 4u));
}

// From a quad of a thread to its next.
fn next(along_k: u32, size: u32) -> vec2<u32> {
    if along_k == 1u { return vec2<u32>(THREADS / (BK / 4u), 0u); }
    return vec2<u32>(0u, THREADS / (size / 4u));
}

// Where an element of a tile lies in workgroup memory, in quads.
fn slot(at: vec2<u32>, along_k: u32, size: u32) -> u32 {
    if along_k == 1u { return (at.x * (BK + PAD) + at.y) / 4u; }
    return (at.y * (size + PAD) + at.x) / 4u;
}

// The nearest row or column of the matrix: what is computed past its edges is not stored.
fn inside(at: u32, size: u32, along_k: u32) -> u32 {
    return min(at, size - select(4u, 1u, along_k == 1u));
}

// Fetches the thread's share of the next tiles into registers. Past the end of k there are zeros.
fn fetch(k0: u32, a_step: u32, b_step: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let live = WHOLE_K == 1u || a_first.y + i * next(A_ALONG_K, BM).y + k0 < p.k;
        a_hold[i] = a[select(0u, a_from[i], live)];
        if !live { a_hold[i] = vec4<f16>(); }
        a_from[i] += a_step;
    }
    for (var i = 0u; i < B_HOLD; i++) {
        let live = WHOLE_K == 1u || b_first.y + i * next(B_ALONG_K, BN).y + k0 < p.k;
        b_hold[i] = b[select(0u, b_from[i], live)];
        if !live { b_hold[i] = vec4<f16>(); }
        b_from[i] += b_step;
    }
}

fn stage() {
    for (var i = 0u; i < A_HOLD; i++) {
        a_tile[slot(a_first, A_ALONG_K, BM) + i * slot(next(A_ALONG_K, BM), A_ALONG_K, BM)] = a_hold[i];
    }
    for (var i = 0u; i < B_HOLD; i++) {
        b_tile[slot(b_first, B_ALONG_K, BN) + i * slot(next(B_ALONG_K, BN), B_ALONG_K, BN)] = b_hold[i];
    }
}

fn left(m: u32, k: u32) -> Left {
    if A_ALONG_K == 1u { return coopLoadT<Left>(&a_tile[(m * (BK + PAD) + k) / 4u], (BK + PAD) / 4u); }
    return coopLoad<Left>(&a_tile[(k * (BM + PAD) + m) / 4u], (BM + PAD) / 4u);
}

fn right(k: u32, n: u32) -> Right {
    if B_ALONG_K == 1u { return coopLoad<Right>(&b_tile[(n * (BK + PAD) + k) / 4u], (BK + PAD) / 4u); }
    return coopLoadT<Right>(&b_tile[(k * (BN + PAD) + n) / 4u], (BN + PAD) / 4u);
}

// Where the pieces of a subgroup go.
struct Piece {
    m: u32,
    n: u32,
    above: u32, // rows of y in the matrices before
    mine: u32,  // the subgroup's part of y_tile
    lane: u32,
}

// A subgroup turns a piece over to its lanes.
fn keep_piece(sum: Sum, to: Piece, below: u32, beside: u32) {
    coopStoreT(sum, &y_tile[to.mine], SCRATCH);
    workgroupBarrier();
    for (var q = to.lane; q < 64u; q += 32u) {
        let m = to.m + below + q / 4u;
        let n = to.n + beside + q % 4u * 4u;
        let at = to.mine + q / 4u * SCRATCH + q % 4u * 4u;
        let v = vec4<f32>(y_tile[at], y_tile[at + 1u], y_tile[at + 2u], y_tile[at + 3u]);
        if m < p.m && n < p.n { y_put((to.above + m) * p.n + n, min(4u, p.n - n), scaled(v, m, n)); }
    }
    workgroupBarrier();
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let batch = group / p.groups;
    if batch >= p.batch { return; }
    let tile = group % p.groups;
    let band = BAND * (p.groups / p.rows);
    let above = tile / band * BAND;
    let high = min(BAND, p.rows - above);
    let m0 = (above + tile % band % high) * BM;
    let n0 = tile % band / high * BN;
    let base = bases(batch);

    let row = subgroup % (BM / WM) * WM;
    let col = subgroup / (BM / WM) * WN;
    a_first = first(thread, A_ALONG_K, BM);
    b_first = first(thread, B_ALONG_K, BN);
    for (var i = 0u; i < A_HOLD; i++) {
        let at = a_first + i * next(A_ALONG_K, BM);
        a_from[i] = (base.x + inside(m0 + at.x, p.m, A_ALONG_K) * p.a_m + at.y * p.a_k) / 4u;
    }
    for (var i = 0u; i < B_HOLD; i++) {
        let at = b_first + i * next(B_ALONG_K, BN);
        b_from[i] = (base.y + inside(n0 + at.x, p.n, B_ALONG_K) * p.b_n + at.y * p.b_k) / 4u;
    }
    // The last round fetches its own tile again, for nobody.
    let a_step = BK * p.a_k / 4u;
    let b_step = BK * p.b_k / 4u;
    fetch(0u, select(0u, a_step, BK < p.k), select(0u, b_step, BK < p.k));
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        stage();
        workgroupBarrier();
        let more = k0 + 2u * BK < p.k;
        fetch(k0 + BK, select(0u, a_step, more), select(0u, b_step, more));
        multiply(row, col);
        workgroupBarrier();
    }
    keep(Piece(m0 + row, n0 + col, batch * p.m, subgroup * 16u * SCRATCH, lane));
}
