// Stores the accumulators of gemm_coop by way of workgroup memory, a strip of their columns at a time.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable wgpu_cooperative_matrix;
const BN = 128u;
const OWN = 128u;
const WN = 64u;
const SIDE = 16u;
const STRIP = 32u;
const STRIP_PITCH = 40u;
const LANES = 32u;
const CELL = 4u;
const IS = 4u;
const JS = 4u;
alias Sum = coop_mat16x16<f32, C>;
struct Params { m: u32, n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<workgroup> y_tile: array<vec4<f32>, 640>;
var<private> sums: array<Sum, IS * JS>;
// What y gets for a quad of y_tile, and its store: gemm_coop_store.wgsl, or gemm_coop_pair_store.wgsl.
alias Results = vec4<f32>;
fn results(m: u32, n: u32, at: u32) -> Results { return y_tile[at]; }
fn store(row: u32, n: u32, v: Results) {}
// end slots

const QUADS = SIDE * STRIP / 4u / (LANES * (BN / OWN)); // of a strip, per lane

// Stores the accumulators of a subgroup, which begin at row m and column n of y behind `above` rows, by way of y_tile from `mine` on.
fn keep(m: u32, n: u32, above: u32, mine: u32, lane: u32) {
    for (var i = 0u; i < IS; i++) { // unroll
        for (var j = 0u; j < WN; j += STRIP) { // unroll
            for (var c = 0u; c < STRIP; c += SIDE) { coopStoreT(sums[i * JS + (j + c) / SIDE], &y_tile[(mine + c) / CELL], STRIP_PITCH / CELL); } // unroll
            keep_strip(m + i * SIDE, n + j, above, mine, lane);
        }
    }
}

// All loads come before any branch, which they would wait in front of; past the last row or column, they are those of the last.
fn keep_strip(m: u32, n: u32, above: u32, mine: u32, lane: u32) {
    var kept: array<Results, QUADS>;
    join();
    for (var i = 0u; i < QUADS; i++) { // unroll
        let at = quad_at(lane, i);
        kept[i] = results(min(m + at.x, p.m - 1u), min(n + at.y, p.n - 1u), (mine + at.x * STRIP_PITCH + at.y) / 4u);
    }
    for (var i = 0u; i < QUADS; i++) { // unroll
        let at = vec2<u32>(m, n) + quad_at(lane, i);
        if at.x < p.m && at.y < p.n { store(above + at.x, at.y, kept[i]); }
    }
    join();
}

// Waits for the subgroups that store together. gemv_coop says what subgroupBarrier relies on.
fn join() {
    if BN == OWN { subgroupBarrier(); } else { workgroupBarrier(); }
}

// The row and column of a lane's quad of a strip.
fn quad_at(lane: u32, i: u32) -> vec2<u32> {
    let quad = i * LANES * (BN / OWN) + lane;
    return vec2<u32>(quad / (STRIP / 4u), quad % (STRIP / 4u) * 4u);
}
