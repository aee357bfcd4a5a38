// The octets of lines along k of a matrix b in bf16 or f32 for gemm_coop, divided by the scales of their lines.

// slots: as it stands this file is the case of bf16.
enable f16;
const HOLD = 8u;
const BN = 128u;
const OWN = 128u;
const ROUND = 64u;
const PAD = 8u;
const THREADS = 128u;
override WHOLE_K: u32 = 1u;
struct More { step: u32 }
struct Params { n: u32, k: u32, b_n: u32, @align(16) more: More }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(); }
fn first_slot(thread: u32, half: u32, along_k: u32, size: u32) -> u32 { return 0u; }
fn b_put(at: u32, v: vec4<f16>) {}
alias Wide = vec4<u32>; // an octet of b
fn wide_of(i: u32, at: u32) -> Wide { return b[at]; }
fn scale_of(i: u32, n: u32) -> f32 { return 1.0; }
fn wide_quad(of8: Wide, high: bool) -> vec4<f32> { return vec4<f32>(select(of8.xyxy, of8.zwzw, high)); }
// end slots

const TURNS = 1u;
const LOADS = HOLD;
const WAITS = true;
var<private> b_hold: array<Wide, HOLD>;
var<private> wide_from: array<u32, HOLD>; // the thread's octets
var<private> b_by: array<f32, HOLD>;   // 1 / the scales of their lines, powers of two

fn b_begin(thread: u32, n0: u32, base: u32, batch: u32) {
    for (var i = 0u; i < HOLD; i++) {
        const OWNED = HOLD * OWN / BN; // octets of each matrix of a pair
        let at = octet_at(thread, i % OWNED, 1u, BN);
        let n = min(n0 + at.x, p.n - 1u);
        wide_from[i] = (base + i / OWNED * p.more.step + n * p.b_n + at.y) / 8u;
        b_by[i] = bitcast<f32>(0x7f000000u - bitcast<u32>(scale_of(i, n)));
    }
}

fn b_fetch(thread: u32, i: u32, k0: u32, turn: u32) {
    let live = WHOLE_K == 1u || k0 + octet_at(thread, i, 1u, BN).y < p.k;
    b_hold[i] = wide_of(i, select(0u, wide_from[i] + k0 / 8u, live));
    if WHOLE_K == 0u && !live { b_hold[i] = Wide(); }
}

fn b_stage(thread: u32, turn: u32) {
    for (var half = 0u; half < 2u; half++) { // unroll
        let slot = first_slot(thread, half, 1u, BN);
        for (var i = 0u; i < HOLD; i++) {
            b_put(slot + i * (THREADS / 8u * (ROUND + PAD) / 4u), vec4<f16>(wide_quad(b_hold[i], half == 1u) * b_by[i]));
        }
    }
}
