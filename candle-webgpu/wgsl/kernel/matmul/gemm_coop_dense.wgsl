// Loads of octets of a matrix b, or of a pair of matrices b and c, for gemm_coop.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
struct Params { more: More, n: u32, b_k: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
override B_ALONG_K: u32 = 1u;
alias Octet = vec4<u32>;
const UNIT = 8u;
const ROUND = 64u;
const BN = 128u;
const OWN = 128u;
const HOLD = 8u;
var<private> b_from: array<u32, 8>;
fn octet_of(i: u32, at: u32) -> Octet { return b[at]; }
fn inside(at: u32, size: u32, along_k: u32) -> u32 { return min(at, size - 1u); }
// end slots

// The parameters of a fused epilogue; all zero without one.
struct Epilogue {
    zero: u32,
    step: u32, // of a pair: offset of c minus offset of b, in elements
    scalars: array<vec4<u32>, 2>,
    reads: array<vec4<u32>, 2>, // of each operand: offset, period in elements, index of the last element of y
}
alias More = Epilogue;

// Initializes the address of the thread's octet i, at row or column n and at k. The second half of a pair's octets are of c.
fn b_start(i: u32, n: u32, k: u32, base: u32, batch: u32) {
    let second = i / (HOLD * OWN / BN);
    let column = inside(n - second * OWN, p.n, B_ALONG_K);
    b_from[i] = (base + second * p.more.step + column * p.b_n + k * p.b_k) / UNIT;
}

// Loads octet i, if it lies within k, and advances to the next round, if there is one.
fn b_next(i: u32, live: bool, more: bool) -> Octet {
    let octet = octet_of(i, select(0u, b_from[i], live));
    b_from[i] += select(0u, ROUND * p.b_k / UNIT, more);
    return octet;
}
