// Split-K for gemm_coop: the tiles of full waves are whole; the others would leave most of the adapter idle, so each of them is divided
// along k.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable wgpu_cooperative_matrix;
alias Sum = coop_mat16x16<f32, C>;
const BM = 128u;
const BN = 128u;
const WN = 64u;
const SIDE = 16u;
const STRIP = 32u;
const STRIP_PITCH = 40u;
const LANES = 32u;
const IS = 4u;
const JS = 4u;
const CELL = 4u;
const ROUND = 64u;
const TURNS = 1u;
var<private> sums: array<Sum, IS * JS>;
var<workgroup> y_tile: array<vec4<f32>, 640>;
fn y_quad(at: u32) -> vec4<f32> { return y_tile[at]; }
struct Params { k: u32, groups: u32, blocks: u32, rounds: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(4) var<storage, read_write> parts: array<vec4<f32>>;
struct Slice { batch: u32, tile: u32, first: u32, depth: u32, part: u32 }
// end slots

// Of `p.groups` tiles, `p.blocks` are whole; each of the others has `p.rounds` parts.
fn slice_of(group: u32) -> Slice {
    if group < p.blocks { return Slice(0u, group, 0u, p.k, 0u); }
    let divided = p.groups - p.blocks;
    let i = group - p.blocks;
    let part = i / divided;
    let steps = p.k / (TURNS * ROUND);
    let first = part * steps / p.rounds * (TURNS * ROUND);
    let end = (part + 1u) * steps / p.rounds * (TURNS * ROUND);
    return Slice(part / p.rounds, p.blocks + i % divided, first, end - first, i + 1u);
}

// Stores the accumulators of a subgroup as `keep` does. Tiles of parts follow one another, each row by row.
fn keep_part(part: u32, row: u32, col: u32, mine: u32, lane: u32) {
    for (var i = 0u; i < IS; i++) { // unroll
        for (var j = 0u; j < WN; j += STRIP) { // unroll
            for (var c = 0u; c < STRIP; c += SIDE) { coopStoreT(sums[i * JS + (j + c) / SIDE], &y_tile[(mine + c) / CELL], STRIP_PITCH / CELL); } // unroll
            subgroupBarrier();
            for (var at = 0u; at < SIDE * STRIP / 4u; at += LANES) { // unroll
                let quad = vec2<u32>((at + lane) / (STRIP / 4u), (at + lane) % (STRIP / 4u));
                let line = part * BM + row + i * SIDE + quad.x;
                parts[(line * BN + col + j) / 4u + quad.y] = y_quad((mine + quad.x * STRIP_PITCH) / 4u + quad.y);
            }
            subgroupBarrier();
        }
    }
}
