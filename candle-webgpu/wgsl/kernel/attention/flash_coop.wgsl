// Attention with grouped queries: y[i, c] = sum_j softmax_j(s[i, j]) v[j, c], where
// s[i, j] = softcap tanh(scale / softcap q[i] . k[j]) + mask[i, j]. Rows i are the queries of all query heads that share a KV head.
// With cooperative matrices of f16. A workgroup of four subgroups owns 64 rows and a split of the keys, which it visits 32 or 16 at a time;
// a subgroup owns 16 rows, two lanes share a row of scores. The lanes of a cooperative matrix cannot scale its rows, so y passes through
// workgroup memory to be rescaled. This is rare, since scores may exceed the maximum that weights are relative to by up to SLACK.
//
// Subgroups wait for each other only where keys are staged; gemv_coop says what subgroupBarrier relies on. Read-only operands are bound
// read_write, see gemm_coop.

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of f16 and up to 64 columns.
alias MASK = f32;
alias Y = vec4<f32>;
const D = 64u; // head_dim of q, k and v, zero-padded
const PARTS = 1u; // numbers of f16 whose sum is an element: one, or two for f32 that may not be rounded
const AHEAD = 1u; // a step multiplies the keys of the next one while it turns its own scores into weights
const HOLD = 1u; // half of a step's products with values wait until the next tile is staged
// Staging, flash_coop_stage.wgsl: tiles of k and v into registers, and from there.
alias Quad = vec4<f16>;
fn fetch(thread: u32, k_base: u32, v_base: u32, k_j: u32, v_j: u32) {}
fn stage(thread: u32, v_j: u32) { tile[thread] = k[v_j] + v[v_j]; }
// Scales of operands that are not f16, flash_coop_scaled.wgsl: of a row of q, and of keys or values j .. j + 4.
fn query_scale(row: u32) -> f32 { return 1.0; }
fn by_keys(dots: vec4<f32>, j: u32) -> vec4<f32> { return dots; }
fn by_values(weights: vec4<f32>, j: u32) -> vec4<f32> { return weights; }
fn with_values(scores: vec4<f32>, j: u32) -> vec4<f32> { return scores; }
// Multiplications, flash_coop_round.wgsl or flash_coop_split.wgsl: q_tiles from the 64 rows of q from row0 on, by way of `tile`; products of
// q and the staged keys; four weights; a step's weights, its values from a column on, and their products, for half of y's columns.
fn load_queries(thread: u32, base: u32, row0: u32, row16: u32) { q_tiles[0] = coopLoadT<Left>(&tile[row16], PITCH / 4u); }
fn multiply_keys() { products[0] = Acc(); }
fn put_weights(at: u32, w: vec4<f32>) { weight[at] = vec4<f16>(w); }
fn load_weights(row: u32) {}
fn load_values(column: u32) {}
fn add_values(column: u32) {}
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn apply_softcap(dots: vec4<f32>) -> vec4<f32> { return dots; }
fn mask_scores(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return s; }
fn block_bits(own: ptr<function, RowTile>, j: u32) -> u32 { return 1u; }
struct RowTile { matrix: u32, split: u32, row0: u32, end: u32, first: u32, last: u32, seen_by_all: u32, block: u32 }
fn row_tile(group: u32, tile_rows: u32) -> RowTile { return RowTile(); }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn seen_by(row: u32) -> u32 { return p.keys; }
fn mask_row(matrix: u32, row: u32) -> u32 { return matrix + row; }
fn next_visible(own: ptr<function, RowTile>, j: u32) -> u32 { return j; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
struct Params {
    head_dim: u32, v_dim: u32, queries: u32, keys: u32, rows: u32, kv_heads: u32, matrices: u32, row_tiles: u32, splits: u32,
    split_keys: u32, causal: u32, scale: f32, softcap: f32, neg_inf: f32, nan: f32, lowest: f32, offsets: vec4<u32>,
    inner_strides: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, mask_strides: vec4<u32>,
}
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> q: array<Quad>;
@group(0) @binding(2) var<storage, read_write> k: array<Quad>;
@group(0) @binding(3) var<storage, read_write> v: array<Quad>;
@group(0) @binding(4) var<storage, read_write> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)

const ROWS = 64u;
const KEYS = 32u / PARTS;
// Elements of a staged row, and of a row of scores or weights, padded so that the rows of a matrix lie in different memory banks.
const PITCH = D + 8u;
const SCORE_PITCH = KEYS + 8u;
const SLACK = 8.0; // keeps weights, at most exp(SLACK), within f16
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Acc = coop_mat16x16<f32, C>;
// First the rows of q; then keys, those of the next step if AHEAD, and a step's values behind them, each with all parts.
var<workgroup> tile: array<vec4<f16>, ROWS * PITCH / 4u>;
var<workgroup> score: array<vec4<f32>, ROWS * SCORE_PITCH / 4u>;
var<workgroup> weight: array<vec4<f16>, PARTS * ROWS * SCORE_PITCH / 4u>;
var<private> q_tiles: array<Left, PARTS * D / 16u>;
var<private> products: array<Acc, KEYS / 16u>;
var<private> acc: array<Acc, D / 16u>;

fn query_tile(row: u32, c: u32) -> Left { return coopLoadT<Left>(&tile[(row * PITCH + c) / 4u], PITCH / 4u); }
fn key_tile(j: u32, c: u32) -> Right { return coopLoad<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn value_tile(j: u32, c: u32) -> Right { return coopLoadT<Right>(&tile[((PARTS * KEYS + j) * PITCH + c) / 4u], PITCH / 4u); }
fn weight_tile(row: u32, j: u32) -> Left { return coopLoadT<Left>(&weight[(row * SCORE_PITCH + j) / 4u], SCORE_PITCH / 4u); }
fn store_tile(matrix_tile: Acc, at: u32) { coopStoreT(matrix_tile, &score[at / 4u], SCORE_PITCH / 4u); }
fn score_tile(at: u32) -> Acc { return coopLoadT<Acc>(&score[at / 4u], SCORE_PITCH / 4u); }

fn store_products(tile_at: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { store_tile(products[j / 16u], tile_at + j); } // unroll
}

// Multiplies the lane's row of y so far, which has to pass through workgroup memory.
fn rescale(factor: f32, tile_at: u32, lane_at: u32) {
    for (var c = 0u; c < D; c += KEYS) { // unroll
        for (var i = 0u; i < KEYS; i += 16u) { store_tile(acc[(c + i) / 16u], tile_at + i); } // unroll
        subgroupBarrier();
        for (var t = 0u; t < KEYS / 8u; t++) { score[lane_at / 4u + t * 2u] *= factor; } // unroll
        subgroupBarrier();
        for (var i = 0u; i < KEYS; i += 16u) { acc[(c + i) / 16u] = score_tile(tile_at + i); } // unroll
        subgroupBarrier();
    }
}

// The scores with keys j .. j + 4 of a row that sees the keys before `visible`, masked and capped.
fn score_quad(s: vec4<f32>, mask_at: u32, visible: u32, j: u32) -> vec4<f32> {
    let here = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(visible);
    return select(vec4<f32>(p.neg_inf), mask_scores(apply_softcap(s), mask_at, j), here);
}

// Whether all rows see the keys of the tile at j, unmasked and uncapped.
fn is_plain_tile(own: ptr<function, RowTile>, j: u32) -> bool {
    return j + KEYS <= (*own).seen_by_all && (block_bits(own, j) & 2u) == 0u && p.softcap == 1.0;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let thread = subgroup * 32u + lane;
    let group = id.y * count.x + id.x;
    if group >= p.splits * p.row_tiles * p.matrices { return; }
    var own = row_tile(group, ROWS);
    let q_base = p.offsets.x + matrix_at(own.matrix, p.q_strides);
    let k_base = p.offsets.y + matrix_at(own.matrix, p.k_strides);
    let v_base = p.offsets.z + matrix_at(own.matrix, p.v_strides);

    // The lane's row: where its mask lies, how many keys it sees, and from where on it owns every second quad of scores.
    let row16 = subgroup * 16u;
    let row = own.row0 + row16 + lane / 2u;
    let clamped_row = min(row, own.end - 1u);
    let mask_at = mask_row(own.matrix, clamped_row);
    let visible = seen_by(clamped_row);
    let first = lane % 2u * 4u;
    let tile_at = row16 * SCORE_PITCH;
    let lane_at = (row16 + lane / 2u) * SCORE_PITCH + first;

    load_queries(thread, q_base, own.row0, row16);
    let scale = p.scale * query_scale(row16 + lane / 2u);

    let start = next_visible(&own, own.first);
    workgroupBarrier();

    var high = p.lowest;
    var weight_sum = 0.0;
    fetch(thread, k_base, v_base, start, start);
    if HOLD == 1u { stage(thread, start); }
    var keys_at = start; // where the keys are that are staged
    var is_plain = false;
    if AHEAD == 1u {
        workgroupBarrier();
        is_plain = is_plain_tile(&own, start);
        keys_at = next_visible(&own, start + KEYS);
        fetch(thread, k_base, v_base, keys_at, start);
        multiply_keys();
        store_products(tile_at);
        workgroupBarrier();
        stage(thread, start);
    }
    for (var j0 = start; j0 < own.last;) {
        if HOLD == 0u { stage(thread, j0); }
        workgroupBarrier();
        let keys_are_plain = is_plain_tile(&own, keys_at);
        let next_keys = next_visible(&own, keys_at + KEYS);
        let next = select(next_keys, keys_at, AHEAD == 1u);
        fetch(thread, k_base, v_base, next_keys, next);
        if AHEAD == 0u {
            is_plain = keys_are_plain;
            multiply_keys();
            store_products(tile_at);
            subgroupBarrier();
        }
        var s: array<vec4<f32>, KEYS / 8u>;
        var top = p.lowest;
        // All loads before any branch, which they would wait in front of.
        for (var t = 0u; t < KEYS / 8u; t++) { s[t] = by_keys(score[lane_at / 4u + t * 2u], first + t * 8u) * scale; } // unroll
        if !is_plain {
            for (var t = 0u; t < KEYS / 8u; t++) { s[t] = score_quad(s[t], mask_at, visible, j0 + first + t * 8u); } // unroll
        }
        for (var t = 0u; t < KEYS / 8u; t++) { // unroll
            let lifted = with_values(s[t], first + t * 8u);
            top = max(top, max(max(lifted.x, lifted.y), max(lifted.z, lifted.w)));
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
        if AHEAD == 1u { multiply_keys(); }
        for (var t = 0u; t < KEYS / 8u; t++) { // unroll
            let w = exp(s[t] - vec4<f32>(high));
            weight_sum += (w.x + w.y) + (w.z + w.w);
            put_weights(lane_at / 4u + t * 2u, by_values(w, first + t * 8u));
        }
        subgroupBarrier();
        if AHEAD == 1u { store_products(tile_at); }
        load_weights(row16);
        load_values(0u);
        add_values(0u);
        load_values(D / 2u);
        if HOLD == 0u { add_values(D / 2u); }
        workgroupBarrier();
        if HOLD == 1u {
            stage(thread, next);
            add_values(D / 2u);
        }
        j0 = next;
        keys_at = next_keys;
        is_plain = keys_are_plain;
    }
    weight_sum += subgroupShuffleXor(weight_sum, 1u);

    let to = y_row(own.matrix, row, own.split);
    for (var c0 = 0u; c0 < D; c0 += KEYS) { // unroll
        for (var i = 0u; i < KEYS; i += 16u) { store_tile(acc[(c0 + i) / 16u], tile_at + i); } // unroll
        subgroupBarrier();
        for (var t = 0u; t < KEYS; t += 8u) {
            let c = c0 + first + t;
            if row < own.end && c < p.v_dim { y_quad_put(to + c / 4u, finish(score[(lane_at + t) / 4u], weight_sum)); }
        }
        subgroupBarrier();
    }
    if PARTIAL == 1u && first == 0u && row < own.end { y_quad_put(to + p.v_dim / 4u, vec4<f32>(high, weight_sum, 0.0, 0.0)); }
}
