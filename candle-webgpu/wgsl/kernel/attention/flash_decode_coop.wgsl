// flash_decode (see there for the formula) in f16 with cooperative matrices. A workgroup owns up to 16 rows and a split of the keys, of
// which each of its subgroups sees 16 in a round. For y, a subgroup owns some of the columns. Two lanes share a row of scores or of y.
// flash_coop says when y is rescaled, gemv_coop what subgroupBarrier relies on. In rope_flash_decode_coop, further workgroups write the
// KV cache.

enable f16;
enable wgpu_cooperative_matrix;

// slots: as it stands this file is the case of up to 64 columns.
alias Q = vec4<f32>;
alias K = vec2<u32>; // two elements a word
alias V = vec2<u32>;
alias MASK = f32;
alias Y = vec4<f32>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
const D = 64u; // head_dim of q, k and v, zero-padded
const SUBGROUPS = 4u;
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn seen_by(row: u32) -> u32 { return p.keys; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn mask_scores(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return s; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
// Staging, flash_decode_coop_stage.wgsl.
fn stage_queries(thread: u32, matrix: u32, row0: u32) { tile[thread] = vec4<f16>(q[matrix + row0]); }
fn fetch_keys(lane: u32, start: u32, j0: u32) { k_held[0] = k[start + j0]; }
fn fetch_values(lane: u32, start: u32, j0: u32) { v_held[0] = v[start + j0]; }
fn stage_keys(lane: u32, at: u32, j0: u32) {}
fn stage_values(lane: u32, at: u32, j0: u32) {}
fn write_caches(group: u32, thread: u32) {}
struct Params {
    head_dim: u32, v_dim: u32, keys: u32, rows: u32, matrices: u32, row_tiles: u32, splits: u32, split_keys: u32, scale: f32,
    neg_inf: f32, lowest: f32, offsets: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, mask_strides: vec4<u32>,
}
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<Q>;
@group(0) @binding(4) var<storage, read> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)

const SIDE = 16u; // rows of a workgroup, and keys of a subgroup's tile
const KEYS = SUBGROUPS * SIDE; // of a round
const COLUMNS = D / SUBGROUPS; // of y that a subgroup owns
const LANES = 32u;
const PITCH = D + 8u; // elements of a staged row, padded so that the rows of a matrix lie in different memory banks
const SCORE_PITCH = SIDE + 8u;
const WEIGHT_PITCH = KEYS + 8u;
const ROW = D / 4u; // quads of a row
const STEP = LANES / ROW; // rows that a subgroup fetches at a time
const HELD = SIDE / STEP; // quads of a tile that a lane stages
const SLACK = 8.0; // keeps weights, at most exp(SLACK), within f16
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Acc = coop_mat16x16<f32, C>;
var<workgroup> tile: array<vec4<f16>, KEYS * PITCH / 4u>; // first the rows of q; then keys, then values
var<workgroup> score: array<vec4<f32>, SUBGROUPS * SIDE * SCORE_PITCH / 4u>;
var<workgroup> weight: array<vec4<f16>, SIDE * WEIGHT_PITCH / 4u>;
var<workgroup> of_rows: array<f32, SUBGROUPS * SIDE>; // the largest scores of a round, in the end sums of weights
var<private> q_tiles: array<Left, D / SIDE>;
var<private> acc: array<Acc, COLUMNS / SIDE>;
var<private> k_held: array<K, HELD>;
var<private> v_held: array<V, HELD>;

fn store_tile(matrix_tile: Acc, at: u32) { coopStoreT(matrix_tile, &score[at / 4u], SCORE_PITCH / 4u); }

fn multiply_keys(at: u32, to: u32) {
    var s = Acc();
    for (var c = 0u; c < D; c += SIDE) { s = coopMultiplyAdd(q_tiles[c / SIDE], coopLoad<Right>(&tile[at + c / 4u], PITCH / 4u), s); } // unroll
    store_tile(s, to);
}

fn multiply_values(column: u32) {
    for (var j = 0u; j < KEYS; j += SIDE) { // unroll
        let w = coopLoadT<Left>(&weight[j / 4u], WEIGHT_PITCH / 4u);
        for (var c = 0u; c < COLUMNS; c += SIDE) { // unroll
            acc[c / SIDE] = coopMultiplyAdd(w, coopLoadT<Right>(&tile[(j * PITCH + column + c) / 4u], PITCH / 4u), acc[c / SIDE]);
        }
    }
}

// Multiplies the lane's row of y so far, which has to pass through workgroup memory.
fn rescale(factor: f32, tile_at: u32, lane_at: u32) {
    for (var c = 0u; c < COLUMNS; c += SIDE) { // unroll
        store_tile(acc[c / SIDE], tile_at);
        subgroupBarrier();
        for (var t = 0u; t < 2u; t++) { score[lane_at / 4u + t * 2u] *= factor; } // unroll
        subgroupBarrier();
        acc[c / SIDE] = coopLoadT<Acc>(&score[tile_at / 4u], SCORE_PITCH / 4u);
        subgroupBarrier();
    }
}

// Loads the queries by way of the first tile.
fn load_queries(thread: u32, matrix: u32, row0: u32) {
    stage_queries(thread, matrix, row0);
    workgroupBarrier();
    for (var c = 0u; c < D; c += SIDE) { q_tiles[c / SIDE] = coopLoadT<Left>(&tile[c / 4u], PITCH / 4u); } // unroll
    workgroupBarrier();
}

// The largest value, or the sum, of what all subgroups have for a row.
fn row_max(row: u32) -> f32 {
    var top = p.lowest;
    for (var s = 0u; s < SUBGROUPS; s++) { top = max(top, of_rows[s * SIDE + row]); } // unroll
    return top;
}

fn row_sum(row: u32) -> f32 {
    var sum = 0.0;
    for (var s = 0u; s < SUBGROUPS; s++) { sum += of_rows[s * SIDE + row]; } // unroll
    return sum;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(workgroup_id) id: vec3<u32>,
) {
    let thread = subgroup * LANES + lane;
    let split = id.x;
    let row_tile = id.y;
    let matrix = id.z;
    if matrix >= p.matrices { write_caches(((matrix - p.matrices) * p.row_tiles + row_tile) * p.splits + split, thread); return; }
    let row0 = row_tile * SIDE;
    let k_start = (p.offsets.y + matrix_at(matrix, p.k_strides)) / 4u + min(lane % ROW, p.head_dim / 4u - 1u);
    let v_start = (p.offsets.z + matrix_at(matrix, p.v_strides)) / 4u + min(lane % ROW, p.v_dim / 4u - 1u);
    let first = split * p.split_keys;
    let last = min(first + p.split_keys, p.keys);

    // The lane's row: where its mask lies, how many keys it sees, the first of its quads, every second one. Rows past the last repeat it.
    let tile_row = lane / 2u;
    let row = min(row0 + tile_row, p.rows - 1u);
    let mask_at = p.offsets.w + matrix_at(matrix, p.mask_strides) + row_at(row, p.mask_strides);
    let visible = seen_by(row);
    let own = lane % 2u * 4u;
    let at = subgroup * SIDE * PITCH / 4u;
    let tile_at = subgroup * SIDE * SCORE_PITCH;
    let lane_at = tile_at + tile_row * SCORE_PITCH + own;

    var high = p.lowest;
    var weight_sum = 0.0;
    // A round fetches its keys and values and uses those of the one before it, so that this code is in the kernel once.
    let rounds = (last - first + KEYS - 1u) / KEYS;
    for (var i = 0u; i <= rounds; i++) {
        let next = first + i * KEYS + subgroup * SIDE;
        let j0 = next - KEYS;
        if i > 0u {
            stage_keys(lane, at, j0);
            subgroupBarrier();
        }
        fetch_keys(lane, k_start, next);
        if i > 0u {
            multiply_keys(at, tile_at);
            subgroupBarrier();
            var s: array<vec4<f32>, 2>;
            var top = p.lowest;
            for (var t = 0u; t < 2u; t++) { // unroll
                let j = vec4<u32>(j0 + own + t * 8u) + vec4<u32>(0u, 1u, 2u, 3u);
                s[t] = select(vec4<f32>(p.neg_inf), mask_scores(score[lane_at / 4u + t * 2u] * p.scale, mask_at, j.x), j < vec4<u32>(visible));
                top = max(top, max(max(s[t].x, s[t].y), max(s[t].z, s[t].w)));
            }
            top = max(top, subgroupShuffleXor(top, 1u));
            if own == 0u { of_rows[subgroup * SIDE + tile_row] = top; }
            stage_values(lane, at, j0);
            workgroupBarrier();
            let raised = max(high, row_max(tile_row));
            if subgroupAny(raised > high + SLACK) {
                let factor = exp(high - raised);
                if i > 1u { rescale(factor, tile_at, lane_at); }
                weight_sum *= factor;
                high = raised;
            }
            for (var t = 0u; t < 2u; t++) { // unroll
                let w = exp(s[t] - vec4<f32>(high));
                weight_sum += (w.x + w.y) + (w.z + w.w);
                weight[(tile_row * WEIGHT_PITCH + subgroup * SIDE + own) / 4u + t * 2u] = vec4<f16>(w);
            }
            workgroupBarrier();
        }
        fetch_values(lane, v_start, next);
        if i == 0u {
            load_queries(thread, matrix, row0);
        } else {
            multiply_values(subgroup * COLUMNS);
            workgroupBarrier();
        }
    }

    weight_sum += subgroupShuffleXor(weight_sum, 1u);
    if own == 0u { of_rows[subgroup * SIDE + tile_row] = weight_sum; }
    workgroupBarrier();
    let weights = row_sum(tile_row);
    let to = y_row(matrix, row0 + tile_row, split);
    let is_row = row0 + tile_row < p.rows;
    for (var c0 = 0u; c0 < COLUMNS; c0 += SIDE) { // unroll
        store_tile(acc[c0 / SIDE], tile_at);
        subgroupBarrier();
        for (var t = 0u; t < 2u; t++) { // unroll
            let c = (subgroup * COLUMNS + c0 + own) / 4u + t * 2u;
            if is_row && c < p.v_dim / 4u { y_quad_put(to + c, finish(score[lane_at / 4u + t * 2u], weights)); }
        }
        subgroupBarrier();
    }
    if PARTIAL == 1u && thread % 2u == 0u && subgroup == 0u && is_row { y_quad_put(to + p.v_dim / 4u, vec4<f32>(high, weights, 0.0, 0.0)); }
}
