// Attention with grouped queries: y[i, c] = sum_j softmax_j(s[i, j]) v[j, c], where
// s[i, j] = softcap tanh(scale / softcap q[i] . k[j]) + mask[i, j]. Rows i are the queries of all query heads that share a KV head.
// For few rows. A workgroup owns ROWS rows and a split of the keys, which it visits 128 at a time. For scores two threads own a key;
// for y a thread owns a quad of columns and every `key_lanes`th key.

// slots: as it stands this file is the f32 case of rows that start at whole quads.
alias Q = vec4<f32>;
alias K = vec4<f32>;
alias V = vec4<f32>;
alias MASK = f32;
alias Y = vec4<f32>;
const ROWS = 4u;
fn q_four(base: u32, c: u32) -> vec4<f32> { return q[(base + c) / 4u]; }
fn k_four(base: u32, c: u32) -> vec4<f32> { return k[(base + c) / 4u]; }
fn v_four(base: u32, c: u32) -> vec4<f32> { return v[(base + c) / 4u]; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn seen_by(row: u32) -> u32 { return p.keys; }
fn scores(dots: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return dots; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
struct Params {
    head_dim: u32, v_dim: u32, queries: u32, keys: u32, rows: u32, kv_heads: u32, matrices: u32, row_tiles: u32, splits: u32,
    split_keys: u32, causal: u32, scale: f32, softcap: f32, neg_inf: f32, nan: f32, lowest: f32, offsets: vec4<u32>,
    inner_strides: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, mask_strides: vec4<u32>,
}
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<Q>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
@group(0) @binding(4) var<storage, read> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u; // two threads for a key
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)
override QUADS: u32 = 64u; // at least the quads of a row of q

const KEYS = 128u;
const THREAD_GROUP = 16u; // threads that reduce the maximum of a row
const PART_ROWS = max(ROWS, 4u);
var<workgroup> query: array<vec4<f32>, QUADS * ROWS>; // transposed: rows of a column are neighbours
var<workgroup> part: array<f32, PART_ROWS * WORKGROUP>;
var<workgroup> weight: array<f32, KEYS * ROWS>;
var<workgroup> partial_max: array<f32, WORKGROUP>;
var<workgroup> high: array<f32, ROWS>;
var<workgroup> rescale: array<f32, ROWS>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits / p.row_tiles;
    if matrix >= p.matrices { return; }
    let split = group % p.splits;
    let row0 = group / p.splits % p.row_tiles * ROWS;
    let k_base = p.offsets.y + matrix_at(matrix, p.k_strides);
    let v_base = p.offsets.z + matrix_at(matrix, p.v_strides);
    let q_base = p.offsets.x + matrix_at(matrix, p.q_strides);
    let mask_base = p.offsets.w + matrix_at(matrix, p.mask_strides);
    let first = split * p.split_keys;
    let last = min(first + p.split_keys, p.keys);

    // Rows past the last repeat it and are not written.
    for (var i = thread; i < p.head_dim / 4u * ROWS; i += WORKGROUP) {
        let row = min(row0 + i % ROWS, p.rows - 1u);
        let start = q_base + row_at(row, p.q_strides);
        query[i] = q_four(start, i / ROWS * 4u) * p.scale;
    }
    if thread < ROWS { high[thread] = p.lowest; }
    let row_quads = p.v_dim / 4u;
    let key_lanes = WORKGROUP / row_quads; // threads that share a column of y
    let key_lane = thread / row_quads;
    let column = thread % row_quads;
    var acc: array<vec4<f32>, ROWS>;
    var weight_sum: array<f32, ROWS>;
    workgroupBarrier();

    for (var j0 = first; j0 < last; j0 += KEYS) {
        let k_at = k_base + min(j0 + thread / 2u, p.keys - 1u) * p.k_strides.w;
        var sum: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sum[r] = 0.0; }
        // Four loads in flight at a time.
        var quad = thread % 2u;
        for (; quad + 6u < p.head_dim / 4u; quad += 8u) {
            let four0 = k_four(k_at, quad * 4u);
            let four1 = k_four(k_at, quad * 4u + 8u);
            let four2 = k_four(k_at, quad * 4u + 16u);
            let four3 = k_four(k_at, quad * 4u + 24u);
            for (var r = 0u; r < ROWS; r++) {
                let at = quad * ROWS + r;
                sum[r] += dot(query[at], four0) + dot(query[at + 2u * ROWS], four1);
                sum[r] += dot(query[at + 4u * ROWS], four2) + dot(query[at + 6u * ROWS], four3);
            }
        }
        for (; quad < p.head_dim / 4u; quad += 2u) {
            let four = k_four(k_at, quad * 4u);
            for (var r = 0u; r < ROWS; r++) { sum[r] += dot(query[quad * ROWS + r], four); }
        }
        for (var r = 0u; r < ROWS; r++) { part[r * WORKGROUP + thread] = sum[r]; }
        workgroupBarrier();
        for (var i = thread * 4u; i < KEYS * ROWS; i += WORKGROUP * 4u) {
            let r = i / KEYS;
            let key = i % KEYS;
            let row = min(row0 + r, p.rows - 1u);
            let mask_at = mask_base + row_at(row, p.mask_strides);
            let sight = min(seen_by(row), last);
            let start = r * WORKGROUP + key * 2u;
            let dots = vec4<f32>(
                part[start] + part[start + 1u], part[start + 2u] + part[start + 3u],
                part[start + 4u] + part[start + 5u], part[start + 6u] + part[start + 7u],
            );
            let s = scores(dots, mask_at, j0 + key);
            weight[key * ROWS + r] = select(p.neg_inf, s.x, j0 + key < sight);
            weight[(key + 1u) * ROWS + r] = select(p.neg_inf, s.y, j0 + key + 1u < sight);
            weight[(key + 2u) * ROWS + r] = select(p.neg_inf, s.z, j0 + key + 2u < sight);
            weight[(key + 3u) * ROWS + r] = select(p.neg_inf, s.w, j0 + key + 3u < sight);
        }
        workgroupBarrier();
        if thread < THREAD_GROUP * ROWS {
            let r = thread / THREAD_GROUP;
            var top = p.lowest;
            for (var key = thread % THREAD_GROUP; key < KEYS; key += THREAD_GROUP) { top = max(top, weight[key * ROWS + r]); }
            partial_max[thread] = top;
        }
        workgroupBarrier();
        if thread < ROWS {
            let old = high[thread];
            var top = old;
            for (var i = 0u; i < THREAD_GROUP; i++) { top = max(top, partial_max[thread * THREAD_GROUP + i]); }
            high[thread] = top;
            rescale[thread] = exp(old - top);
        }
        workgroupBarrier();
        for (var i = thread; i < KEYS * ROWS; i += WORKGROUP) { weight[i] = exp(weight[i] - high[i % ROWS]); }
        workgroupBarrier();
        for (var r = 0u; r < ROWS; r++) {
            acc[r] *= rescale[r];
            weight_sum[r] *= rescale[r];
        }
        let tile_keys = select(0u, min(KEYS, last - j0), key_lane < key_lanes);
        var key = key_lane;
        for (; key + 3u * key_lanes < tile_keys; key += 4u * key_lanes) {
            let v_at = v_base + (j0 + key) * p.v_strides.w;
            let v_step = key_lanes * p.v_strides.w;
            let four0 = v_four(v_at, column * 4u);
            let four1 = v_four(v_at + v_step, column * 4u);
            let four2 = v_four(v_at + 2u * v_step, column * 4u);
            let four3 = v_four(v_at + 3u * v_step, column * 4u);
            for (var r = 0u; r < ROWS; r++) {
                let w = vec4<f32>(
                    weight[key * ROWS + r], weight[(key + key_lanes) * ROWS + r],
                    weight[(key + 2u * key_lanes) * ROWS + r], weight[(key + 3u * key_lanes) * ROWS + r],
                );
                acc[r] += (w.x * four0 + w.y * four1) + (w.z * four2 + w.w * four3);
                weight_sum[r] += (w.x + w.y) + (w.z + w.w);
            }
        }
        for (; key < tile_keys; key += key_lanes) {
            let four = v_four(v_base + (j0 + key) * p.v_strides.w, column * 4u);
            for (var r = 0u; r < ROWS; r++) {
                let w = weight[key * ROWS + r];
                acc[r] += w * four;
                weight_sum[r] += w;
            }
        }
    }

    for (var r = 0u; r < ROWS; r++) {
        workgroupBarrier();
        part[thread] = acc[r].x;
        part[WORKGROUP + thread] = acc[r].y;
        part[2u * WORKGROUP + thread] = acc[r].z;
        part[3u * WORKGROUP + thread] = acc[r].w;
        partial_max[thread] = weight_sum[r];
        workgroupBarrier();
        let row = row0 + r;
        if row < p.rows && key_lane == 0u {
            var sum = vec4<f32>();
            var weights = 0.0;
            for (var i = 0u; i < key_lanes; i++) {
                let start = i * row_quads + column;
                sum += vec4<f32>(part[start], part[WORKGROUP + start], part[2u * WORKGROUP + start], part[3u * WORKGROUP + start]);
                weights += partial_max[start];
            }
            let to = y_row(matrix, row, split);
            y_quad_put(to + column, finish(sum, weights));
            if PARTIAL == 1u && column == 0u { y_quad_put(to + row_quads, vec4<f32>(high[r], weights, 0.0, 0.0)); }
        }
    }
}
