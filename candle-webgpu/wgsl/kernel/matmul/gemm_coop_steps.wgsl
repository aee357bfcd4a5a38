// The cooperative matrices of gemm_coop: those of a step along k, and the sums of their products.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
enable wgpu_cooperative_matrix;
override A_ALONG_K: u32 = 1u;
override B_ALONG_K: u32 = 1u;
const BM = 128u;
const BN = 128u;
const WM = 64u;
const WN = 64u;
const ROUND = 64u;
const PAD = 8u;
const SIDE = 16u;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
const CELL = 4u;
var<workgroup> a_tile: array<vec4<f16>, 1280>;
var<workgroup> b_tile: array<vec4<f16>, 1280>;
// end slots

const IS = WM / SIDE;
const JS = WN / SIDE;
var<private> lefts: array<Left, IS>;
var<private> rights: array<Right, JS>;
var<private> sums: array<Sum, IS * JS>;

// Loads the matrices of a step along k.
fn load_step(row: u32, col: u32, k: u32) {
    for (var i = 0u; i < IS; i++) { lefts[i] = left(row + i * SIDE, k); } // unroll
    for (var j = 0u; j < JS; j++) { rights[j] = right(k, col + j * SIDE); } // unroll
}

// Adds their products.
fn add_step() {
    for (var j = 0u; j < JS; j++) { // unroll
        for (var i = 0u; i < IS; i++) { sums[i * JS + j] = coopMultiplyAdd(lefts[i], rights[j], sums[i * JS + j]); } // unroll
    }
}

// Multiplies what is staged, but for the last step, which is only loaded.
fn multiply(row: u32, col: u32) {
    load_step(row, col, 0u);
    for (var k = SIDE; k < ROUND; k += SIDE) { // unroll
        add_step();
        load_step(row, col, k);
    }
}

fn left(m: u32, k: u32) -> Left {
    if A_ALONG_K == 1u { return coopLoadT<Left>(&a_tile[(m * (ROUND + PAD) + k) / CELL], (ROUND + PAD) / CELL); }
    return coopLoad<Left>(&a_tile[(k * (BM + PAD) + m) / CELL], (BM + PAD) / CELL);
}

fn right(k: u32, n: u32) -> Right {
    if B_ALONG_K == 1u { return coopLoad<Right>(&b_tile[(n * (ROUND + PAD) + k) / CELL], (ROUND + PAD) / CELL); }
    return coopLoadT<Right>(&b_tile[(k * (BN + PAD) + n) / CELL], (BN + PAD) / CELL);
}
