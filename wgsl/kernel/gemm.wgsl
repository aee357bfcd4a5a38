// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n]. A workgroup owns a tile of 16 TM rows and 64 TQ columns of y,
// a thread TM rows of TQ times four columns.

// slots: as it stands this file is the f32 case with both operands aligned and y of whole quads.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias Y = vec4<f32>;
const TM = 4u;
const TQ = 1u;
const BK = 16u;
fn a_four(m: u32, k: u32, base: u32) -> vec4<f32> { return a[(base + m * p.a_m + k * p.a_k) / 4u]; }
var<private> b_from: vec3<u32>;
fn b_fetch(thread: u32, n0: u32, k0: u32, base: u32) { b_from = vec3<u32>(n0, k0, base); }
fn b_stage(thread: u32) {
    for (var i = thread; i < BN * BK; i += 256u) {
        let at = b_from.xy + vec2<u32>(i % BN, i / BN);
        let source = b_from.z + at.y * p.b_k + at.x * p.b_n;
        b_tile[i / BN * (BN + PAD) + i % BN] = select(0.0, b[source / 4u][source % 4u], at.x < p.n && at.y < p.k);
    }
}
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
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
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u; // 16 x 16 threads, whatever the tile
override A_ALONG_K: u32 = 1u;   // quads of a run along k, else along m
override B_ALONG_K: u32 = 0u;   // quads of b run along k, else along n
override PAD: u32 = 4u;         // keeps stores that run along k off one memory bank

const BM = 16u * TM;
const BN = 64u * TQ;
const A_HOLD = (BM * BK / 4u + 255u) / 256u;
var<workgroup> a_tile: array<f32, BK * (BM + PAD)>;
var<workgroup> b_tile: array<f32, BK * (BN + PAD)>;
var<private> a_hold: array<vec4<f32>, A_HOLD>;

// Row or column, and k, of quad q of a tile with `size` rows or columns.
fn place(q: u32, along_k: u32, size: u32) -> vec2<u32> {
    if along_k == 1u { return vec2<u32>(q / (BK / 4u), q % (BK / 4u) * 4u); }
    return vec2<u32>(q % (size / 4u) * 4u, q / (size / 4u));
}

// Fetches the thread's share of the tile of a at k0 into registers; zero past the edges. `b_fetch` does it for b.
fn a_fetch(thread: u32, m0: u32, k0: u32, base: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let at = place(thread + i * 256u, A_ALONG_K, BM) + vec2<u32>(m0, k0);
        a_hold[i] = vec4<f32>();
        if at.x < p.m && at.y < p.k { a_hold[i] = a_four(at.x, at.y, base); }
    }
}

fn a_stage(thread: u32) {
    for (var i = 0u; i < A_HOLD; i++) {
        let q = thread + i * 256u;
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
    var a_base = p.a_offset;
    var b_base = p.b_offset;
    var rest = batch;
    for (var d = 0u; d < 4u; d++) {
        let i = rest % p.dims[d];
        rest /= p.dims[d];
        a_base += i * p.a_batch[d];
        b_base += i * p.b_batch[d];
    }

    let row = thread / 16u * TM;
    let col = thread % 16u * 4u;
    var acc: array<vec4<f32>, TM * TQ>;
    a_fetch(thread, m0, 0u, a_base);
    b_fetch(thread, n0, 0u, b_base);
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        a_stage(thread);
        b_stage(thread);
        workgroupBarrier();
        if k0 + BK < p.k {
            a_fetch(thread, m0, k0 + BK, a_base);
            b_fetch(thread, n0, k0 + BK, b_base);
        }
        for (var k = 0u; k < BK; k++) {
            var right: array<vec4<f32>, TQ>;
            for (var j = 0u; j < TQ; j++) {
                let at = k * (BN + PAD) + j * 64u + col;
                right[j] = vec4<f32>(b_tile[at], b_tile[at + 1u], b_tile[at + 2u], b_tile[at + 3u]);
            }
            for (var i = 0u; i < TM; i++) {
                let left = a_tile[k * (BM + PAD) + row + i];
                for (var j = 0u; j < TQ; j++) { acc[i * TQ + j] += left * right[j]; }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < TM; i++) {
        let m = m0 + row + i;
        for (var j = 0u; j < TQ; j++) {
            let n = n0 + j * 64u + col;
            if m < p.m && n < p.n { y_put((batch * p.m + m) * p.n + n, min(4u, p.n - n), acc[i * TQ + j]); }
        }
    }
}
