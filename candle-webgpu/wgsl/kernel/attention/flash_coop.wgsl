// Attention with grouped queries: y[i, c] = sum_j softmax_j(s[i, j]) v[j, c], where
// s[i, j] = softcap tanh(scale / softcap q[i] . k[j]) + mask[i, j]. Rows i are the queries of all query heads that share a KV head.
// In f16 with cooperative matrices. A workgroup of four subgroups owns 64 rows and a split of the keys, which it visits 32 at a time;
// a subgroup owns 16 rows, two lanes share a row of scores. The lanes of a cooperative matrix cannot scale its rows, so y passes through
// workgroup memory to be rescaled. This is rare, since scores may exceed the maximum that weights are relative to by up to SLACK.
//
// Subgroups wait for each other only where keys are staged; gemv_coop says what subgroupBarrier relies on. Read-only operands are bound
// read_write, see gemm_coop.

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of up to 64 columns.
alias MASK = f32;
alias Y = vec4<f32>;
const D = 64u; // head_dim of q, k and v, zero-padded
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn apply_softcap(dots: vec4<f32>) -> vec4<f32> { return dots; }
fn mask_scores(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return s; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
struct Params {
    head_dim: u32, v_dim: u32, queries: u32, keys: u32, rows: u32, kv_heads: u32, matrices: u32, row_tiles: u32, splits: u32,
    split_keys: u32, causal: u32, scale: f32, softcap: f32, neg_inf: f32, nan: f32, lowest: f32, offsets: vec4<u32>,
    inner_strides: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, mask_strides: vec4<u32>,
}
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> q: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> k: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> v: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)

const ROWS = 64u;
const KEYS = 32u;
const PITCH = D + 8u; // elements of a staged row, padded so that the rows of a matrix lie in different memory banks
const SCORE_PITCH = KEYS + 4u;
const WEIGHT_PITCH = KEYS + 8u;
const SLACK = 8.0; // keeps weights, at most exp(SLACK), within f16
const KEY_TILES = 512u; // the most of a split; a multiple of 4
const HELD = KEYS * D / 4u / 128u; // quads of k, and of v, that a thread stages
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Acc = coop_mat16x16<f32, C>;
var<workgroup> tile: array<vec4<f16>, ROWS * PITCH / 4u>; // first the rows of q; then a tile of keys, followed by its values
var<workgroup> score: array<vec4<f32>, ROWS * SCORE_PITCH / 4u>;
var<workgroup> weight: array<vec4<f16>, ROWS * WEIGHT_PITCH / 4u>;
// One bit per tile of keys: whether the mask leaves something visible, and whether it changes a score.
var<workgroup> live: array<atomic<u32>, KEY_TILES / 32u>;
var<workgroup> changed: array<atomic<u32>, KEY_TILES / 32u>;
var<private> q_tiles: array<Left, D / 16u>;
var<private> acc: array<Acc, D / 16u>;
var<private> k_held: array<vec4<f16>, HELD>;
var<private> v_held: array<vec4<f16>, HELD>;

fn key_tile(j: u32, c: u32) -> Right { return coopLoad<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn value_tile(j: u32, c: u32) -> Right { return coopLoadT<Right>(&tile[((KEYS + j) * PITCH + c) / 4u], PITCH / 4u); }
fn weight_tile(row: u32, j: u32) -> Left { return coopLoadT<Left>(&weight[(row * WEIGHT_PITCH + j) / 4u], WEIGHT_PITCH / 4u); }
fn store_tile(matrix_tile: Acc, at: u32) { coopStoreT(matrix_tile, &score[at / 4u], SCORE_PITCH / 4u); }
fn score_tile(at: u32) -> Acc { return coopLoadT<Acc>(&score[at / 4u], SCORE_PITCH / 4u); }

fn multiply_keys(tile_at: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { // unroll
        var s = Acc();
        for (var c = 0u; c < D; c += 16u) { s = coopMultiplyAdd(q_tiles[c / 16u], key_tile(j, c), s); } // unroll
        store_tile(s, tile_at + j);
    }
}

fn multiply_values(row: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { // unroll
        let w = weight_tile(row, j);
        for (var c = 0u; c < D; c += 16u) { acc[c / 16u] = coopMultiplyAdd(w, value_tile(j, c), acc[c / 16u]); } // unroll
    }
}

// Multiplies the lane's row of y so far, which has to pass through workgroup memory.
fn rescale(factor: f32, tile_at: u32, lane_at: u32) {
    for (var c = 0u; c < D; c += KEYS) { // unroll
        store_tile(acc[c / 16u], tile_at);
        store_tile(acc[c / 16u + 1u], tile_at + 16u);
        subgroupBarrier();
        for (var t = 0u; t < KEYS / 8u; t++) { score[lane_at / 4u + t] *= factor; } // unroll
        subgroupBarrier();
        acc[c / 16u] = score_tile(tile_at);
        acc[c / 16u + 1u] = score_tile(tile_at + 16u);
        subgroupBarrier();
    }
}

// Quad i of the KEYS rows from j0 on. Outside of k it repeats the last key or quad: whoever zeroes it here waits for the load.
fn key_quad(i: u32, base: u32, j0: u32) -> vec4<f16> {
    let key = min(j0 + i / (D / 4u), p.keys - 1u);
    return k[(base + key * p.k_strides.w + min(i % (D / 4u) * 4u, p.head_dim - 4u)) / 4u];
}

fn value_quad(i: u32, base: u32, j0: u32) -> vec4<f16> {
    let key = min(j0 + i / (D / 4u), p.keys - 1u);
    return v[(base + key * p.v_strides.w + min(i % (D / 4u) * 4u, p.v_dim - 4u)) / 4u];
}

// Fetches a thread's quads of the tile at j0.
fn fetch(thread: u32, k_base: u32, v_base: u32, j0: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        k_held[i] = key_quad(thread + i * 128u, k_base, j0);
        v_held[i] = value_quad(thread + i * 128u, v_base, j0);
    }
}

// Stages the quads that were fetched, with zeros outside of k and v.
fn stage(thread: u32, j0: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        let at = slot(thread + i * 128u);
        tile[at] = k_held[i];
        tile[KEYS * PITCH / 4u + at] = v_held[i];
    }
    if p.head_dim == D && j0 + KEYS <= p.keys { return; }
    for (var i = 0u; i < HELD; i++) {
        let here = thread + i * 128u;
        if here % (D / 4u) * 4u >= p.head_dim { tile[slot(here)] = vec4<f16>(); }
        if j0 + here / (D / 4u) >= p.keys { tile[KEYS * PITCH / 4u + slot(here)] = vec4<f16>(); }
    }
}

// Where quad i of the staged rows lies.
fn slot(i: u32) -> u32 { return i / (D / 4u) * (PITCH / 4u) + i % (D / 4u); }

// The scores with keys j .. j + 4 of a row that sees the keys before `visible`. In a plain tile no score is masked or capped.
fn score_quad(dots: vec4<f32>, is_plain_tile: bool, mask_at: u32, visible: u32, j: u32) -> vec4<f32> {
    let s = dots * p.scale;
    if is_plain_tile { return s; }
    let here = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(visible);
    return select(vec4<f32>(p.neg_inf), mask_scores(apply_softcap(s), mask_at, j), here);
}

// Whether a row's mask hides all of the 16 keys from j on, and whether it changes none of them.
fn mask_effect(mask_at: u32, j: u32) -> vec2<bool> {
    let a = mask_scores(vec4<f32>(), mask_at, j);
    let b = mask_scores(vec4<f32>(), mask_at, j + 4u);
    let c = mask_scores(vec4<f32>(), mask_at, j + 8u);
    let e = mask_scores(vec4<f32>(), mask_at, j + 12u);
    let none = vec4<f32>();
    let low = vec4<f32>(p.neg_inf);
    return vec2<bool>(
        all(a == low) && all(b == low) && all(c == low) && all(e == low),
        all(a == none) && all(b == none) && all(c == none) && all(e == none),
    );
}

fn record_effect(lane: u32, t: u32, mask_effect: vec2<bool>) {
    let hides = subgroupAll(mask_effect.x);
    let keeps = subgroupAll(mask_effect.y);
    if lane == 0u {
        if !hides { atomicOr(&live[t / 32u], 1u << t % 32u); }
        if !keeps { atomicOr(&changed[t / 32u], 1u << t % 32u); }
    }
}

// The first tile from j on of which the mask leaves something visible; `last` or more if none.
fn next_live(j: u32, first: u32, last: u32) -> u32 {
    var next = j;
    if MASKED != 0u {
        for (; next < last; next += KEYS) {
            let t = (next - first) / KEYS;
            if (atomicLoad(&live[t / 32u]) >> t % 32u & 1u) == 1u { break; }
        }
    }
    return next;
}

// Whether the scores of the tile at j are plain dot products: all rows see its keys, unmasked and uncapped.
fn is_plain(j: u32, first: u32, visible_to_all: u32) -> bool {
    let t = (j - first) / KEYS;
    let kept = MASKED == 0u || (atomicLoad(&changed[t / 32u]) >> t % 32u & 1u) == 0u;
    return kept && p.softcap == 1.0 && j + KEYS <= visible_to_all;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    // With a causal mask the last rows take longest, so they start first.
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits % p.matrices;
    if group >= p.splits * p.row_tiles * p.matrices { return; }
    let split = group % p.splits;
    let row0 = (p.row_tiles - 1u - group / p.splits / p.matrices) * ROWS;
    let at = vec2<u32>(matrix / p.kv_heads, matrix % p.kv_heads);
    let q_base = p.offsets.x + at.x * p.q_strides.x + at.y * p.q_strides.y;
    let k_base = p.offsets.y + at.x * p.k_strides.x + at.y * p.k_strides.y;
    let v_base = p.offsets.z + at.x * p.v_strides.x + at.y * p.v_strides.y;

    // Some row of the workgroup sees keys first .. last; all rows see the keys before `visible_to_all`.
    let end = min(row0 + ROWS, p.rows) - 1u;
    let one_head = row0 / p.queries == end / p.queries;
    let last_query = select(p.queries - 1u, end % p.queries, one_head);
    let first_query = select(0u, row0 % p.queries, one_head);
    let visible_end = u32(max(i32(last_query) + 1 + i32(p.keys) - i32(p.queries), 0));
    let visible_to_all = select(p.keys, min(u32(max(i32(first_query) + 1 + i32(p.keys) - i32(p.queries), 0)), p.keys), p.causal == 1u);
    let first = split * p.split_keys;
    let last = min(min(first + p.split_keys, p.keys), select(p.keys, visible_end, p.causal == 1u));

    // The lane's row: where its mask lies, how many keys it sees, which half of a tile's scores it owns.
    let row16 = subgroup * 16u;
    let row = row0 + row16 + lane / 2u;
    let clamped_row = min(row, p.rows - 1u);
    let mask_at = p.offsets.w + at.x * p.mask_strides.x + at.y * p.mask_strides.y
        + clamped_row / p.queries * p.mask_strides.z + clamped_row % p.queries * p.mask_strides.w;
    let causal = u32(max(i32(clamped_row % p.queries) + 1 + i32(p.keys) - i32(p.queries), 0));
    let visible = select(p.keys, min(causal, p.keys), p.causal == 1u);
    let half = lane % 2u * (KEYS / 2u);
    let tile_at = row16 * SCORE_PITCH;
    let lane_at = (row16 + lane / 2u) * SCORE_PITCH + half;

    for (var i = 0u; i < 2u * HELD; i++) {
        let here = thread + i * 128u;
        let r = min(row0 + here / (D / 4u), p.rows - 1u);
        let c = here % (D / 4u) * 4u;
        let element = q_base + r / p.queries * p.q_strides.z + r % p.queries * p.q_strides.w + c;
        var quad = q[select(0u, element / 4u, c < p.head_dim)];
        if c >= p.head_dim { quad = vec4<f16>(); }
        tile[slot(here)] = quad;
    }
    if MASKED != 0u {
        if thread < KEY_TILES / 32u {
            atomicStore(&live[thread], 0u);
            atomicStore(&changed[thread], 0u);
        }
        workgroupBarrier();
        // Four tiles at a time, so that their loads overlap.
        for (var j0 = first; j0 < last; j0 += 4u * KEYS) {
            let t = (j0 - first) / KEYS;
            let one = mask_effect(mask_at, j0 + half);
            let two = mask_effect(mask_at, j0 + KEYS + half);
            let three = mask_effect(mask_at, j0 + 2u * KEYS + half);
            let four = mask_effect(mask_at, j0 + 3u * KEYS + half);
            record_effect(lane, t, one);
            record_effect(lane, t + 1u, two);
            record_effect(lane, t + 2u, three);
            record_effect(lane, t + 3u, four);
        }
    }
    workgroupBarrier();
    for (var c = 0u; c < D; c += 16u) { q_tiles[c / 16u] = coopLoadT<Left>(&tile[(row16 * PITCH + c) / 4u], PITCH / 4u); } // unroll

    let start = next_live(first, first, last);
    workgroupBarrier();

    var high = p.lowest;
    var weight_sum = 0.0;
    fetch(thread, k_base, v_base, start);
    for (var j0 = start; j0 < last;) {
        stage(thread, j0);
        workgroupBarrier();
        let next = next_live(j0 + KEYS, first, last);
        fetch(thread, k_base, v_base, next);
        multiply_keys(tile_at);
        subgroupBarrier();
        let is_plain_tile = is_plain(j0, first, visible_to_all);
        var s: array<vec4<f32>, KEYS / 8u>;
        var top = p.lowest;
        for (var t = 0u; t < KEYS / 8u; t++) { // unroll
            s[t] = score_quad(score[lane_at / 4u + t], is_plain_tile, mask_at, visible, j0 + half + t * 4u);
            top = max(top, max(max(s[t].x, s[t].y), max(s[t].z, s[t].w)));
        }
        top = max(top, subgroupShuffleXor(top, 1u));
        if subgroupAny(top > high + SLACK) {
            let raised = max(high, top);
            let factor = exp(high - raised);
            subgroupBarrier();
            if j0 > start { rescale(factor, tile_at, lane_at); }
            weight_sum *= factor;
            high = raised;
        }
        for (var t = 0u; t < KEYS / 8u; t++) { // unroll
            let w = exp(s[t] - vec4<f32>(high));
            weight_sum += (w.x + w.y) + (w.z + w.w);
            weight[((row16 + lane / 2u) * WEIGHT_PITCH + half) / 4u + t] = vec4<f16>(w);
        }
        subgroupBarrier();
        multiply_values(row16);
        workgroupBarrier();
        j0 = next;
    }
    weight_sum += subgroupShuffleXor(weight_sum, 1u);

    let to = y_row(matrix, row, split);
    for (var c0 = 0u; c0 < D; c0 += KEYS) { // unroll
        store_tile(acc[c0 / 16u], tile_at);
        store_tile(acc[c0 / 16u + 1u], tile_at + 16u);
        subgroupBarrier();
        for (var t = 0u; t < KEYS / 2u; t += 4u) {
            let c = c0 + half + t;
            if row < p.rows && c < p.v_dim { y_quad_put(to + c / 4u, finish(score[(lane_at + t) / 4u], weight_sum)); }
        }
        subgroupBarrier();
    }
    if PARTIAL == 1u && half == 0u && row < p.rows { y_quad_put(to + p.v_dim / 4u, vec4<f32>(high, weight_sum, 0.0, 0.0)); }
}
