// Loads a dense b of gemm into workgroup memory by quads.

// slots: stand-ins for what gemm.wgsl and its linker provide.
const THREADS = 256u;
const BK = 16u;
const BN = 64u;
const PAD = 4u;
struct Params { n: u32, k: u32, b_n: u32, b_k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<workgroup> b_tile: array<f32, BK * (BN + PAD)>;
override B_ALONG_K: u32 = 0u;
fn place(q: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(q, 0u); }
override WHOLE_K: u32 = 0u;
const B_UNIT = 4u;
fn inside(at: u32, size: u32, along_k: u32, unit: u32) -> u32 { return at; }
fn b_read(start: u32, at: vec2<u32>) -> vec4<f32> { return vec4<f32>(); }
// end slots

const B_HOLD = (BN * BK / 4u + THREADS - 1u) / THREADS;
var<private> b_hold: array<vec4<f32>, B_HOLD>;
var<private> b_from: array<u32, B_HOLD>;

fn b_start(thread: u32, n0: u32, base: u32) {
    for (var i = 0u; i < B_HOLD; i++) {
        let at = place(thread + i * THREADS, B_ALONG_K, BN);
        b_from[i] = (base + inside(n0 + at.x, p.n, B_ALONG_K, B_UNIT) * p.b_n + at.y * p.b_k) / B_UNIT;
    }
}

fn b_fetch(thread: u32, n0: u32, k0: u32) {
    for (var i = 0u; i < B_HOLD; i++) {
        let at = place(thread + i * THREADS, B_ALONG_K, BN) + vec2<u32>(n0, k0);
        let live = WHOLE_K == 1u || at.y < p.k;
        b_hold[i] = vec4<f32>();
        if live && (B_UNIT == 4u || at.x < p.n) { b_hold[i] = b_read(b_from[i], at); }
        b_from[i] += BK * p.b_k / B_UNIT;
    }
}

fn b_stage(thread: u32) {
    for (var i = 0u; i < B_HOLD; i++) {
        let q = thread + i * THREADS;
        if q < BN * BK / 4u {
            let at = place(q, B_ALONG_K, BN);
            let step = select(1u, BN + PAD, B_ALONG_K == 1u);
            let first = at.y * (BN + PAD) + at.x;
            b_tile[first] = b_hold[i].x;
            b_tile[first + step] = b_hold[i].y;
            b_tile[first + 2u * step] = b_hold[i].z;
            b_tile[first + 3u * step] = b_hold[i].w;
        }
    }
}
