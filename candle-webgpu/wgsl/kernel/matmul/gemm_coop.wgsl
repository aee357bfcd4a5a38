// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] with cooperative matrices. A workgroup owns a tile of BM x BN elements of y, a
// subgroup WM x WN of them, in matrices of SIDE x SIDE.
//
// A round covers 64 elements along k, fetched by octets: a line is 128 bytes, a whole cache line. Its quads alternate between two
// halves: k 0 to 3, 8 to 11, ... go to the first. The order of accumulation is free, so the two quads of an octet along k take
// the same slot of both halves. The large tile holds one half at a time.
//
// Large tiles: NVIDIA's compiler (driver 580) moves nothing across a barrier but loads of read-only memory, so `a` and `b` are bound as
// read_write. Between two barriers, it loads first and multiplies last. So the last step's products of what is staged wait until the
// other half is staged in its place, and the next octets are fetched in front of them: multiplications hide the latency of both. The loop
// begins where no octet is held, since the compiler copies what one iteration hands to the next. Small tiles hold fewer octets, and
// are faster with all products in front of the barrier.

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of 128 x 128 and y of whole quads of f32.
alias Y = vec4<f32>;
const BM = 128u;
const BN = 128u;
const OWN = 128u; // columns of y: half of BN for a pair of matrices
const WM = 64u;
const WN = 64u;
const BK = 32u;
const SIDE = 16u;  // rows and columns of a cooperative matrix
const LANES = 32u; // invocations of a subgroup
alias Sum = coop_mat16x16<f32, C>;
alias Cell = vec4<f16>;
alias YCell = vec4<f32>;
const CELL = 4u;
// gemm_coop_tile.wgsl.
fn tile_at(tile: u32) -> vec2<u32> { return vec2<u32>(tile % p.rows * BM, tile / p.rows * OWN); }
// gemm_coop_steps.wgsl.
const IS = 4u;
const JS = 4u;
var<private> sums: array<Sum, IS * JS>;
fn multiply(row: u32, col: u32) { sums[0] = coopLoadT<Sum>(&y_tile[row + col], 4u); }
fn add_step() {}
// gemm_coop_octet.wgsl.
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(thread, i); }
fn octet_behind(first: u32, i: u32, line: u32, last: u32, along_k: u32, size: u32) -> u32 { return first; }
fn inside(at: u32, size: u32, along_k: u32) -> u32 { return min(at, size - 1u); }
fn first_slot(thread: u32, half: u32, along_k: u32, size: u32) -> u32 { return thread; }
// Each workgroup has the whole k of a tile, unless several divide it: gemm_coop_split_k.wgsl.
fn slice_of(group: u32) -> Slice { return Slice(group / p.groups, group % p.groups, 0u, p.k, 0u); }
fn keep_part(part: u32, row: u32, col: u32) {}
fn a_put(at: u32, v: vec4<f16>) { a_tile[at] = v; }
fn b_put(at: u32, v: vec4<f16>) { b_tile[at] = v; }
fn y_quad(at: u32) -> vec4<f32> { return y_tile[at]; }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
// The parts of b and the stores of y: gemm_coop_b_octets.wgsl, with the addresses of gemm_coop_dense.wgsl for a matmul and of
// gemm_coop_image.wgsl for a convolution; gemm_coop_b_units.wgsl for a quantized b.
alias BLoad = Load;
alias More = u32;
const TURNS = 1u; // rounds that b is loaded for at a time
const LOADS = 1u; // calls of b_fetch for a round
fn b_begin(thread: u32, n0: u32, base: u32, batch: u32) {}
fn b_fetch(thread: u32, i: u32, k0: u32, turn: u32) {}
fn b_stage(thread: u32, half: u32, turn: u32) { b_put(thread, quad(b[thread], half == 1u)); }
fn a_stage(thread: u32, half: u32, turn: u32) { a_put(thread, quad(a_hold[0], half == 1u)); } // b_stage of octets, renamed
fn store(row: u32, m: u32, n: u32, at: u32) { y_put(row * p.n + n, 4u, y_quad(at)); }
// Operands are read by octets if all of these are aligned to 16 bytes, else by quads.
alias Load = vec4<u32>;
alias Octet = vec4<u32>;
const UNIT = 8u;
fn a_octet(at: u32) -> Octet { return a[at]; }
fn quad(of8: Octet, high: bool) -> vec4<f16> {
    let words = select(of8.xy, of8.zw, high);
    return vec4<f16>(vec2<f16>(unpack2x16float(words.x)), vec2<f16>(unpack2x16float(words.y)));
}
fn within(of8: Octet, low: bool, high: bool) -> Octet { return select(Octet(), of8, vec4<bool>(low, low, high, high)); }
// end slots

struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32, // workgroups per matrix
    rows: u32,   // tiles along m
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: vec4<u32>, // batch dims, innermost first
    a_batch: vec4<u32>,
    b_batch: vec4<u32>,
    op: u32,
    blocks: u32,
    rounds: u32,
    more: More,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> a: array<Load>;
@group(0) @binding(2) var<storage, read_write> b: array<BLoad>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override A_ALONG_K: u32 = 1u; // octets of a are contiguous along k, else along m
override B_ALONG_K: u32 = 1u; // octets of b are contiguous along k, else along n
override WHOLE_K: u32 = 1u;   // k is a multiple of TURNS * ROUND

const ROUND = 64u;
const HALF = 32u;
const PAD = 8u;      // elements between the lines of a tile: puts the rows of a matrix on different banks
const THREADS = 128u;
const HOLD = BM * ROUND / 8u / THREADS; // octets per thread; BN equals BM
var<workgroup> a_tile: array<Cell, max(BM * (BK + PAD), BK * (BM + PAD)) / CELL>;
var<workgroup> b_tile: array<Cell, max(BN * (BK + PAD), BK * (BN + PAD)) / CELL>;
var<workgroup> y_tile: array<YCell, THREADS / LANES * SIDE * SIDE / CELL>;
var<private> a_hold: array<Octet, HOLD>;
var<private> a_from: u32; // the thread's first octet, in elements
var<private> a_last: u32; // rows from it to the last row of a, for octets along k
var<private> depth: u32;  // of the workgroup's slice

fn keep(at: Piece) {
    for (var i = 0u; i < IS; i++) { // unroll
        for (var j = 0u; j < JS; j++) { keep_piece(sums[i * JS + j], at, i * SIDE, j * SIDE); } // unroll
    }
}

// Loads octet i of the thread's part of a round of a into registers, with zeros past the end of k.
fn a_fetch(thread: u32, i: u32, k0: u32) {
    let start = (a_from + k0 * p.a_k) / UNIT;
    let line = select(p.a_k, p.a_m, A_ALONG_K == 1u) / UNIT;
    let k = k0 + octet_at(thread, i, A_ALONG_K, BM).y;
    let live = WHOLE_K == 1u || k < p.k;
    a_hold[i] = a_octet(select(0u, octet_behind(start, i, line, a_last, A_ALONG_K, BM), live));
    if WHOLE_K == 0u { a_hold[i] = within(a_hold[i], live, k + 4u * A_ALONG_K < p.k); }
}

// Loads the thread's part of a round.
fn fetch(thread: u32, k0: u32, turn: u32) {
    for (var i = 0u; i < LOADS; i++) { b_fetch(thread, i, k0, turn); }
    for (var i = 0u; i < HOLD; i++) { a_fetch(thread, i, k0); }
}

// Stages a half of a round, or all of it in a tile as deep.
fn stage(thread: u32, half: u32, turn: u32) {
    a_stage(thread, half, turn);
    b_stage(thread, half, turn);
    if BK == ROUND {
        a_stage(thread, 1u, turn);
        b_stage(thread, 1u, turn);
    }
}

// Multiplies what is staged, and stages what follows.
fn restage(thread: u32, half: u32, turn: u32, row: u32, col: u32) {
    workgroupBarrier();
    multiply(row, col);
    workgroupBarrier();
    stage(thread, half, turn);
}

// The position of the matrices of a subgroup.
struct Piece {
    m: u32,
    n: u32,
    above: u32, // rows of y in the preceding matrices of the batch
    mine: u32,  // offset of the subgroup's part of y_tile
    lane: u32,
}

// Stores an accumulator matrix through workgroup memory, by the lanes of its subgroup.
fn keep_piece(sum: Sum, to: Piece, below: u32, beside: u32) {
    coopStoreT(sum, &y_tile[to.mine / CELL], SIDE / CELL);
    workgroupBarrier();
    for (var q = to.lane; q < SIDE * SIDE / 4u; q += LANES * (BN / OWN)) {
        let m = to.m + below + q / (SIDE / 4u);
        let n = to.n + beside + q % (SIDE / 4u) * 4u;
        if m < p.m && n < p.n {
            store(to.above + m, m, n, to.mine / 4u + q);
        }
    }
    workgroupBarrier();
}

// What a workgroup computes: elements `first` to `first + depth` along k of a tile. Part 0 stores y, the others part 1, 2, ... of it.
struct Slice { batch: u32, tile: u32, first: u32, depth: u32, part: u32 }

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) lanes: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let slice = slice_of(id.y * count.x + id.x);
    // Subgroups of any other size would not cover the tile.
    if slice.batch >= p.batch || lanes != LANES { return; }
    depth = slice.depth;
    let origin = tile_at(slice.tile);
    let base = bases(slice.batch) + slice.first * vec2<u32>(p.a_k, p.b_k);

    let row = subgroup % (BM / WM) * WM;
    let col = subgroup / (BM / WM) * WN;
    let a_at = octet_at(thread, 0u, A_ALONG_K, BM);
    let a_row = inside(origin.x + a_at.x, p.m, A_ALONG_K);
    a_from = base.x + a_row * p.a_m + a_at.y * p.a_k;
    a_last = p.m - 1u - a_row;
    b_begin(thread, origin.y, base.y, slice.batch);
    fetch(thread, 0u, 0u);
    stage(thread, 0u, 0u);
    if BK < ROUND { restage(thread, 1u, 0u, row, col); }
    for (var first = ROUND; first < slice.depth; first += TURNS * ROUND) {
        for (var i = 0u; i < TURNS; i++) { // unroll
            let k0 = first + i * ROUND;
            let turn = (i + 1u) % TURNS;
            if i > 0u && k0 >= slice.depth { break; }
            if BK < ROUND {
                fetch(thread, k0, turn);
                add_step();
                restage(thread, 0u, turn, row, col);
                add_step();
                restage(thread, 1u, turn, row, col);
            } else {
                workgroupBarrier();
                fetch(thread, k0, turn);
                multiply(row, col);
                add_step();
                workgroupBarrier();
                stage(thread, 0u, turn);
            }
        }
    }
    if BK < ROUND { add_step(); }
    workgroupBarrier();
    multiply(row, col);
    add_step();
    if slice.part > 0u {
        keep_part(slice.part - 1u, row, col);
        return;
    }
    // The subgroups of both matrices of a pair store its results together.
    keep(Piece(origin.x + row, origin.y + col % OWN, slice.batch * p.m, subgroup * (SIDE * SIDE), lane + col / OWN * LANES));
}
