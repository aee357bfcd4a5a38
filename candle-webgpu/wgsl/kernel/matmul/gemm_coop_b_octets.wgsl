// The octets of b for gemm_coop.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
alias Octet = vec4<u32>;
const HOLD = 8u;
const BN = 128u;
const ROUND = 64u;
const PAD = 8u;
const THREADS = 128u;
override WHOLE_K: u32 = 1u;
override B_ALONG_K: u32 = 1u;
struct Params { k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(); }
fn first_slot(thread: u32, half: u32, along_k: u32, size: u32) -> u32 { return 0u; }
fn b_start(thread: u32, n0: u32, base: u32, batch: u32) {}
fn b_next(i: u32, live: bool, k0: u32) -> Octet { return Octet(); }
fn within(of8: Octet, low: bool, high: bool) -> Octet { return of8; }
fn b_put(at: u32, v: vec4<f16>) {}
fn quad(of8: Octet, high: bool) -> vec4<f16> { return vec4<f16>(); }
// end slots

const TURNS = 1u;
const LOADS = HOLD;
const WAITS = true;
var<private> b_hold: array<Octet, HOLD>;

fn b_begin(thread: u32, n0: u32, base: u32, batch: u32) { b_start(thread, n0, base, batch); }

fn b_fetch(thread: u32, i: u32, k0: u32, turn: u32) {
    let k = k0 + octet_at(thread, i, B_ALONG_K, BN).y;
    let live = WHOLE_K == 1u || k < p.k;
    b_hold[i] = b_next(i, live, k0);
    if WHOLE_K == 0u { b_hold[i] = within(b_hold[i], live, k + 4u * B_ALONG_K < p.k); }
}

// Stages a round; for a, too, under another name. Across k, adjacent groups of eight threads start with different quads of their octets, on
// different banks.
fn b_stage(thread: u32, turn: u32) {
    let swap = thread / 8u % 2u;
    for (var half = 0u; half < 2u; half++) { // unroll
        let slot = first_slot(thread, half, B_ALONG_K, BN);
        if B_ALONG_K == 1u {
            for (var i = 0u; i < HOLD; i++) { b_put(slot + i * (THREADS / 8u * (ROUND + PAD) / 4u), quad(b_hold[i], half == 1u)); }
        } else {
            for (var i = 0u; i < HOLD / 2u; i++) {
                let v = b_hold[i + half * (HOLD / 2u)];
                let at = slot + i * (THREADS / (BN / 8u) * (BN + PAD) / 4u);
                b_put(at + swap, quad(v, swap == 1u));
                b_put(at + 1u - swap, quad(v, swap == 0u));
            }
        }
    }
}
