// y[m, n] = sum over k of a[m, k] b[n, k] for up to ROWS rows with cooperative matrices, bound by reading b once. A workgroup owns
// COLS columns of y. Its subgroups share k: of each round, a subgroup multiplies 64 elements, which pass through its own part of
// workgroup memory in two halves. As in gemm_coop, a half takes every second quad, and `a` and `b` are bound as read_write.
//
// Subgroups do not wait for each other: with workgroupBarrier, 16 rows took 14 percent longer. naga 30 gives subgroupBarrier no memory
// semantics for workgroup memory in SPIR-V, so a new device tests this kernel (device/features.rs).

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of 16 rows and 16 columns of f32.
alias Y = vec4<f32>;
const ROWS = 16u;
const COLS = 16u; // lines of b that a workgroup reads
const OWN = 16u; // columns of y: half as many for a pair of matrices
const AT_A_TIME = 2u; // accumulators that are added up at a time
fn place(group: u32) -> Place { return Place(0u, group, p.n, p.b_offset, p.b_n); }
fn load_b(lane: u32, place: Place, k: u32) {
    for (var i = 0u; i < COLS / 4u; i++) { b_held[i] = b[(place.start + line_of(lane, i) * place.stride + k) / 8u + lane % 8u]; }
}
fn word_ahead(place: Place) -> u32 { return 0u; }
fn put_of(which: u32, at: u32, v: vec4<f32>, w: vec4<f32>) { y[at / 4u] = v; }
struct Epilogue { zero: u32 }
struct Params { epilogue: Epilogue, @align(16) m: u32, n: u32, k: u32, a_offset: u32, b_offset: u32, a_m: u32, b_n: u32 }
const PAGE = 1u << 19u;
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;

alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
const SIDE = 16u;
const SUBGROUPS = 8u;
const LANES = 32u;
const STEP = 64u; // elements along k of a subgroup's part of a round
const ROUND = SUBGROUPS * STEP;
const HALF = 32u;
const LINE = HALF + 8u; // padded: puts the rows of a matrix on different banks
const QUADS = SIDE * SIDE / 4u;
var<workgroup> a_tile: array<vec4<f16>, SUBGROUPS * ROWS * LINE / 4u>;
var<workgroup> b_tile: array<vec4<f16>, SUBGROUPS * COLS * LINE / 4u>;
var<workgroup> y_tile: array<vec4<f32>, AT_A_TIME * QUADS>;
var<private> a_held: array<vec4<u32>, ROWS / 4u>; // eight lanes hold a line
var<private> b_held: array<vec4<u32>, COLS / 4u>;
var<private> left: array<Left, ROWS / SIDE>;
var<private> sums: array<Sum, ROWS / SIDE * (COLS / SIDE)>;

fn multiply(a_at: u32, b_at: u32) {
    for (var k = 0u; k < HALF; k += SIDE) { // unroll
        for (var m = 0u; m < ROWS; m += SIDE) { left[m / SIDE] = coopLoadT<Left>(&a_tile[(a_at + m * LINE + k) / 4u], LINE / 4u); } // unroll
        for (var n = 0u; n < COLS; n += SIDE) { // unroll
            let right = coopLoad<Right>(&b_tile[(b_at + n * LINE + k) / 4u], LINE / 4u);
            for (var m = 0u; m < ROWS; m += SIDE) { // unroll
                let i = m / SIDE * (COLS / SIDE) + n / SIDE;
                sums[i] = coopMultiplyAdd(left[m / SIDE], right, sums[i]);
            }
        }
    }
}

// The i-th line of a lane: those of half a subgroup are on different banks.
fn line_of(lane: u32, i: u32) -> u32 { return lane / 8u * 4u + i % 4u + i / 4u * 16u; }

// The columns of a workgroup: of which matrix and block, the number of its columns, where the block starts, and the stride of columns.
struct Place { which: u32, group: u32, n: u32, start: u32, stride: u32 }

// Loads a subgroup's elements from k on. Past the end it loads the first ones, which are not used.
fn load(lane: u32, place: Place, k: u32) {
    let safe = select(0u, k, k < p.k);
    load_b(lane, place, safe);
    for (var i = 0u; i < ROWS / 4u; i++) {
        let row = min(line_of(lane, i), p.m - 1u);
        a_held[i] = a[(p.a_offset + row * p.a_m + safe) / 8u + lane % 8u];
    }
}

fn quad(of8: vec4<u32>, high: bool) -> vec4<f16> {
    let words = select(of8.xy, of8.zw, high);
    return vec4<f16>(vec2<f16>(unpack2x16float(words.x)), vec2<f16>(unpack2x16float(words.y)));
}

fn stage(lane: u32, a_at: u32, b_at: u32, high: bool) {
    for (var i = 0u; i < COLS / 4u; i++) { b_tile[(b_at + line_of(lane, i) * LINE) / 4u + lane % 8u] = quad(b_held[i], high); }
    for (var i = 0u; i < ROWS / 4u; i++) { a_tile[(a_at + line_of(lane, i) * LINE) / 4u + lane % 8u] = quad(a_held[i], high); }
}

// The sum of an accumulator over all subgroups: a quad for each of the first threads.
fn add_up(sum: Sum, thread: u32) -> vec4<f32> {
    let subgroup = thread / LANES;
    var total = vec4<f32>();
    for (var first = 0u; first < SUBGROUPS; first += AT_A_TIME) {
        if subgroup / AT_A_TIME * AT_A_TIME == first { coopStoreT(sum, &y_tile[subgroup % AT_A_TIME * QUADS], SIDE / 4u); }
        workgroupBarrier();
        if thread < QUADS {
            for (var i = 0u; i < AT_A_TIME; i++) { total += y_tile[i * QUADS + thread]; }
        }
        workgroupBarrier();
    }
    return total;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_size) lanes: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    var here = place(id.y * count.x + id.x);
    // Subgroups of any other size would not share k.
    if here.group * OWN >= here.n || lanes != LANES { return; }
    here.start += here.group * OWN * here.stride;
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    let a_at = subgroup * ROWS * LINE;
    let b_at = subgroup * COLS * LINE;
    let first = subgroup * STEP;
    load(lane, here, first);
    if thread == 0u && here.start % PAGE < OWN * here.stride { b_held[0].x ^= word_ahead(here) & p.epilogue.zero; } // lib/pages.wgsl
    for (var k = first; k < p.k + first; k += ROUND) {
        stage(lane, a_at, b_at, false);
        subgroupBarrier();
        if k < p.k { multiply(a_at, b_at); }
        subgroupBarrier();
        stage(lane, a_at, b_at, true);
        subgroupBarrier();
        load(lane, here, k + ROUND);
        if k < p.k { multiply(a_at, b_at); }
        subgroupBarrier();
    }
    for (var m = 0u; m < ROWS; m += SIDE) { // unroll
        for (var n = 0u; n < OWN; n += SIDE) { // unroll
            let v = add_up(sums[m / SIDE * (COLS / SIDE) + n / SIDE], thread);
            var w = vec4<f32>();
            for (var c = n + OWN; c < COLS; c += OWN) { w = add_up(sums[m / SIDE * (COLS / SIDE) + c / SIDE], thread); } // unroll
            let row = m + thread / (SIDE / 4u);
            let column = here.group * OWN + n + thread % (SIDE / 4u) * 4u;
            if thread < QUADS && row < p.m { put_of(here.which, row * here.n + column, v, w); }
        }
    }
}
