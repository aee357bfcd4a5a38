// A pair of matrices b and c for gemm_coop: the first half of a thread's octets and of the subgroups are of b, the others of c.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
const HOLD = 8u;
const LANES = 32u;
const SIDE = 16u;
const THREADS = 128u;
alias Octet = vec4<u32>;
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn b_octet(at: u32) -> Octet { return Octet(); }
fn c_octet(at: u32) -> Octet { return Octet(); }
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
fn y_put(at: u32, count: u32, v: vec4<f32>, w: vec4<f32>) {}
// end slots

fn octet_of(i: u32, at: u32) -> Octet {
    if i < HOLD / 2u { return b_octet(at); }
    return c_octet(at);
}

// Half of y_tile, in quads.
const OF_B = THREADS / LANES * SIDE * SIDE / 8u;

fn store(row: u32, m: u32, n: u32, at: u32) {
    y_put(row * p.n + n, min(4u, p.n - n), y_quad(at % OF_B), y_quad(at % OF_B + OF_B));
}
