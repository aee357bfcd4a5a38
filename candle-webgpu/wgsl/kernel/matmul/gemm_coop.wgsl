// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] with cooperative matrices. A workgroup owns a tile of BM x BN elements of y, a
// subgroup WM x WN of them, in matrices of SIDE x SIDE.
//
// A round covers 64 elements along k, fetched by octets: a line is 128 bytes, a whole cache line.
//
// NVIDIA's compiler (driver 580) moves nothing across a barrier but loads of read-only memory, so `a` and `b` are bound as read_write.
// Between two barriers, it loads first and multiplies last. So the next round's octets are fetched in front of this one's products, and with
// WAITS the last step's products wait until that round is staged: multiplications hide the latency of both. The loop begins where no octet
// is held, since the compiler copies what one iteration hands to the next.

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of 128 x 128 and y of whole quads of f32.
alias Y = vec4<f32>;
const BM = 128u;
const BN = 128u;
const OWN = 128u; // columns of y: half of BN for a pair of matrices
const WM = 64u;
const WN = 64u;
const SIDE = 16u;  // rows and columns of a cooperative matrix
const STRIP_PITCH = 40u; // of the columns that a subgroup stores at a time, padded
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
fn keep_part(part: u32, row: u32, col: u32, mine: u32, lane: u32) {}
fn a_put(at: u32, v: vec4<f16>) { a_tile[at] = v; }
fn b_put(at: u32, v: vec4<f16>) { b_tile[at] = v; }
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
// The parts of b: gemm_coop_b_octets.wgsl, with the addresses of gemm_coop_dense.wgsl for a matmul and of
// gemm_coop_image.wgsl for a convolution; gemm_coop_b_units.wgsl for a quantized b.
alias BLoad = Load;
alias More = u32;
const TURNS = 1u; // rounds that b is loaded for at a time
const LOADS = 1u; // calls of b_fetch for a round
const WAITS = true;
fn b_begin(thread: u32, n0: u32, base: u32, batch: u32) {}
fn b_fetch(thread: u32, i: u32, k0: u32, turn: u32) {}
fn b_stage(thread: u32, turn: u32) { b_put(thread, quad(b[thread], false)); }
fn a_stage(thread: u32, turn: u32) { a_put(thread, quad(a_hold[0], false)); } // b_stage of octets, renamed
// gemm_coop_keep.wgsl.
fn keep(m: u32, n: u32, above: u32, mine: u32, lane: u32) { y[m] = y_tile[mine]; }
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
const HALF = ROUND / 2u;
const PAD = 8u;      // elements between the lines of a tile: puts the rows of a matrix on different banks
const THREADS = 128u;
const A_HOLD = BM * ROUND / 8u / THREADS; // octets per thread
const HOLD = BN * ROUND / 8u / THREADS;   // those of b
var<workgroup> a_tile: array<Cell, max(BM * (ROUND + PAD), ROUND * (BM + PAD)) / CELL>;
var<workgroup> b_tile: array<Cell, max(BN * (ROUND + PAD), ROUND * (BN + PAD)) / CELL>;
var<workgroup> y_tile: array<YCell, THREADS / LANES * SIDE * STRIP_PITCH / CELL>;
var<private> a_hold: array<Octet, A_HOLD>;
var<private> a_from: u32; // the thread's first octet, in elements
var<private> a_last: u32; // rows from it to the last row of a, for octets along k
var<private> depth: u32;  // of the workgroup's slice

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
    for (var i = 0u; i < A_HOLD; i++) { a_fetch(thread, i, k0); }
}

fn stage(thread: u32, turn: u32) {
    a_stage(thread, turn);
    b_stage(thread, turn);
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
    stage(thread, 0u);
    for (var first = ROUND; first < slice.depth; first += TURNS * ROUND) {
        for (var i = 0u; i < TURNS; i++) { // unroll
            let k0 = first + i * ROUND;
            let turn = (i + 1u) % TURNS;
            if i > 0u && k0 >= slice.depth { break; }
            workgroupBarrier();
            fetch(thread, k0, turn);
            multiply(row, col);
            if !WAITS { add_step(); }
            workgroupBarrier();
            stage(thread, turn);
            if WAITS { add_step(); }
        }
    }
    workgroupBarrier();
    multiply(row, col);
    add_step();
    let mine = subgroup * (SIDE * STRIP_PITCH);
    if slice.part > 0u {
        keep_part(slice.part - 1u, row, col, mine, lane);
        return;
    }
    // The subgroups of both matrices of a pair store its results together.
    keep(origin.x + row, origin.y + col % OWN, slice.batch * p.m, mine, lane + col / OWN * LANES);
}
