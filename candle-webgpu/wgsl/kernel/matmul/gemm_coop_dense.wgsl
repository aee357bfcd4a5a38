// Loads of octets of a matrix b, or of a pair of matrices b and c, for gemm_coop.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
struct Params { more: More, n: u32, b_k: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
override B_ALONG_K: u32 = 1u;
alias Octet = vec4<u32>;
const UNIT = 8u;
const BN = 128u;
const OWN = 128u;
const HOLD = 8u;
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(); }
fn octet_behind(first: u32, i: u32, line: u32, last: u32, along_k: u32, size: u32) -> u32 { return first; }
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

var<private> b_from: u32; // the thread's first octet, in elements
var<private> b_last: u32; // columns from it to the last column of b, for octets along k

fn b_start(thread: u32, n0: u32, base: u32, batch: u32) {
    let at = octet_at(thread, 0u, B_ALONG_K, BN);
    let column = inside(n0 + at.x, p.n, B_ALONG_K);
    b_from = base + column * p.b_n + at.y * p.b_k;
    b_last = p.n - 1u - column;
}

// Loads octet i of a round, if it lies within k. The second half of a pair's octets are of c.
fn b_next(i: u32, live: bool, k0: u32) -> Octet {
    let own = HOLD * OWN / BN;
    let line = select(p.b_k, p.b_n, B_ALONG_K == 1u) / UNIT;
    let start = (b_from + i / own * p.more.step + k0 * p.b_k) / UNIT;
    return octet_of(i, select(0u, octet_behind(start, i % own, line, b_last, B_ALONG_K, BN), live));
}
