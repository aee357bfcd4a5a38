// Loads of octets of a matrix b, and stores to contiguous rows of y, for gemm_coop.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
struct Params { n: u32, b_k: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
override B_ALONG_K: u32 = 1u;
alias Octet = vec4<u32>;
const UNIT = 8u;
const ROUND = 64u;
var<private> b_from: array<u32, 8>;
fn b_octet(at: u32) -> Octet { return b[at]; }
fn inside(at: u32, size: u32, along_k: u32) -> u32 { return min(at, size - 1u); }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// end slots

// The parameters of a fused epilogue; all zero without one.
struct Epilogue {
    zero: u32,
    step: u32, // of a pair: offset of c minus offset of b, in elements
    scalars: array<vec4<u32>, 2>,
    reads: array<vec4<u32>, 2>, // of each operand: offset, period in elements, index of the last element of y
}
alias More = Epilogue;

// Initializes the address of the thread's octet i, at row or column n and at k.
fn b_start(i: u32, n: u32, k: u32, base: u32, batch: u32) {
    b_from[i] = (base + inside(n, p.n, B_ALONG_K) * p.b_n + k * p.b_k) / UNIT;
}

// Loads octet i, if it lies within k, and advances to the next round, if there is one.
fn b_next(i: u32, live: bool, more: bool) -> Octet {
    let octet = b_octet(select(0u, b_from[i], live));
    b_from[i] += select(0u, ROUND * p.b_k / UNIT, more);
    return octet;
}

fn store(row: u32, n: u32, v: vec4<f32>) { y_put(row * p.n + n, min(4u, p.n - n), v); }
