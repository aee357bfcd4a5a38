// flash_decode (see there for the formula) with subgroup shuffles. A thread group of THREAD_GROUP threads visits as many keys at a
// time and keeps a running maximum of its own, without barriers until all thread groups of the workgroup are combined. For scores,
// eight threads (an octet) share eight keys and then reduce, so that each has the score of one; for y, a thread owns COLUMN_QUADS
// quads of columns. In rope_flash_decode, either these threads write the KV cache (KEEPS) or further workgroups (`write_caches`).

// slots: as it stands this file is the f32 case of rows that start at whole quads, without subgroups.
alias Q = vec4<f32>;
alias K = vec4<f32>;
alias V = vec4<f32>;
alias MASK = f32;
alias Y = vec4<f32>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
const ROWS = 4u;
const COLUMN_QUADS = 1u;
const KEEPS = false;
fn q_start(at: u32) -> u32 { return at / 4u; }
fn k_start(at: u32) -> u32 { return at / 4u; }
fn v_start(at: u32) -> u32 { return at / 4u; }
fn q_quad(start: u32, quad: u32) -> vec4<f32> { return q[start + quad]; }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn seen_by(row: u32) -> u32 { return p.keys; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn scores(dots: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return dots; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
fn shuffle_xor(v: f32, far: u32) -> f32 { return v; }
fn shuffle(v: f32, lane: u32) -> f32 { return v; }
fn stage_newest(matrix: u32, thread: u32) {}
fn newest_key(quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn newest_value(quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn key_quad(start: u32, step: u32, key: u32, quad: u32, newest: vec4<f32>) -> vec4<f32> { return k[start + key * step + quad]; }
fn value_quad(start: u32, step: u32, key: u32, quad: u32, newest: vec4<f32>) -> vec4<f32> { return v[start + key * step + quad]; }
fn keep_key(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
fn keep_value(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
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
override WORKGROUP: u32 = 256u; // one thread a key
override THREAD_GROUP: u32 = 8u; // a power of two, at most the subgroup size
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)

const ROW = 64u; // the most quads of a row of q
var<workgroup> query: array<vec4<f32>, ROWS * ROW>;
var<workgroup> part: array<vec4<f32>, ROWS * COLUMN_QUADS * WORKGROUP>;
var<workgroup> group_max: array<f32, ROWS * WORKGROUP / THREAD_GROUP>;
var<workgroup> group_sum: array<f32, ROWS * WORKGROUP / THREAD_GROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let split = id.x;
    let row_tile = id.y;
    let matrix = id.z;
    if matrix >= p.matrices { write_caches(((matrix - p.matrices) * p.row_tiles + row_tile) * p.splits + split, thread); return; }
    let row0 = row_tile * ROWS;
    let k_first = k_start(p.offsets.y + matrix_at(matrix, p.k_strides));
    let v_first = v_start(p.offsets.z + matrix_at(matrix, p.v_strides));
    let k_step = k_start(p.k_strides.w);
    let v_step = v_start(p.v_strides.w);
    let q_base = p.offsets.x + matrix_at(matrix, p.q_strides);
    let first = split * p.split_keys;
    let last = min(first + p.split_keys, p.keys);

    let q_quads = p.head_dim / 4u;
    if thread < ROWS * ROW && thread % ROW < q_quads {
        let row = min(row0 + thread / ROW, p.rows - 1u);
        query[thread] = q_quad(q_start(q_base + row_at(row, p.q_strides)), thread % ROW);
    }
    stage_newest(matrix, thread);
    // Rows past the last repeat it and are not written.
    var mask_at: array<u32, ROWS>;
    var visible: array<u32, ROWS>;
    var high: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let row = min(row0 + r, p.rows - 1u);
        mask_at[r] = p.offsets.w + matrix_at(matrix, p.mask_strides) + row_at(row, p.mask_strides);
        visible[r] = min(seen_by(row), last);
        high[r] = p.lowest;
    }
    let row_quads = p.v_dim / 4u;
    // Threads for a row of y: a power of two, since divisions take long.
    let shift = 32u - countLeadingZeros(row_quads - 1u);
    let key_lanes = max(THREAD_GROUP >> shift, 1u); // keys that a thread group accumulates at a time
    let member = thread % THREAD_GROUP;
    let key_lane = member >> shift;
    let own_quad = member & ((1u << shift) - 1u);
    let group_lane0 = lane - lane % THREAD_GROUP; // of the thread group's first thread in its subgroup
    // An octet sees every `octets`th key of the thread group.
    let octets = THREAD_GROUP / 8u;
    let octet_lane = member % 8u;
    var acc: array<vec4<f32>, COLUMN_QUADS * ROWS>;
    var weight_sum: array<f32, ROWS>;
    // Of eight keys that a thread reads at a time, those that it writes to new caches: the row tiles, which all read them, take turns.
    var kept = 0u;
    if KEEPS { for (var i = row_tile; i < 8u; i += p.row_tiles) { kept |= 1u << i; } }
    workgroupBarrier();

    for (var j0 = first; j0 < last; j0 += WORKGROUP) {
        // Keys past the last repeat it with weight 0.
        let group_key = j0 + thread - member;
        let octet_key = group_key + member / 8u;
        var dots: array<f32, 8u * ROWS>;
        for (var i = 0u; i < 8u * ROWS; i++) { dots[i] = 0.0; }
        for (var c = octet_lane; c < q_quads; c += 8u) {
            var fours: array<vec4<f32>, 8>;
            let newest = newest_key(c);
            for (var i = 0u; i < 8u; i++) { fours[i] = key_quad(k_first, k_step, octet_key + i * octets, c, newest); }
            for (var i = 0u; i < 8u; i++) {
                let key = octet_key + i * octets;
                if KEEPS && (kept & (1u << i)) != 0u && key < last { keep_key(matrix, key, c, fours[i]); }
            }
            for (var r = 0u; r < ROWS; r++) {
                let four = query[r * ROW + c];
                for (var i = 0u; i < 8u; i++) { dots[r * 8u + i] += dot(four, fours[i]); }
            }
        }
        let j = octet_key + octet_lane * octets;
        var weight: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            // Transpose and reduce: each step hands over the half of the dots that the thread does not keep.
            var halves: array<f32, 4>;
            for (var i = 0u; i < 4u; i++) {
                let pair = vec2<f32>(dots[r * 8u + i], dots[r * 8u + 4u + i]);
                halves[i] = select(pair.x, pair.y, (octet_lane & 4u) != 0u) + shuffle_xor(select(pair.y, pair.x, (octet_lane & 4u) != 0u), 4u);
            }
            var two: array<f32, 2>;
            for (var i = 0u; i < 2u; i++) {
                let pair = vec2<f32>(halves[i], halves[2u + i]);
                two[i] = select(pair.x, pair.y, (octet_lane & 2u) != 0u) + shuffle_xor(select(pair.y, pair.x, (octet_lane & 2u) != 0u), 2u);
            }
            let odd = (octet_lane & 1u) != 0u;
            let dot_qk = select(two[0], two[1], odd) + shuffle_xor(select(two[1], two[0], odd), 1u);
            let s = scores(vec4<f32>(dot_qk * p.scale), mask_at[r], j).x;
            let score = select(p.neg_inf, s, j < visible[r]);
            var top = max(high[r], score);
            for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { top = max(top, shuffle_xor(top, far)); }
            let rescale = exp(high[r] - top);
            high[r] = top;
            weight[r] = exp(score - top);
            weight_sum[r] = weight_sum[r] * rescale + weight[r];
            for (var i = 0u; i < COLUMN_QUADS; i++) { acc[r * COLUMN_QUADS + i] *= rescale; }
        }
        var column: array<u32, COLUMN_QUADS>;
        var newest: array<vec4<f32>, COLUMN_QUADS>;
        for (var i = 0u; i < COLUMN_QUADS; i++) {
            column[i] = min(own_quad + i * THREAD_GROUP, row_quads - 1u);
            newest[i] = newest_value(column[i]);
        }
        // Eight loads in flight at a time.
        for (var n0 = 0u; n0 < THREAD_GROUP; n0 += 8u * key_lanes) {
            var fours: array<vec4<f32>, 8u * COLUMN_QUADS>;
            let first_key = group_key + n0 + key_lane;
            for (var i = 0u; i < 8u * COLUMN_QUADS; i++) {
                let key = first_key + i / COLUMN_QUADS * key_lanes;
                fours[i] = value_quad(v_first, v_step, key, column[i % COLUMN_QUADS], newest[i % COLUMN_QUADS]);
            }
            let end = min(group_key + THREAD_GROUP, last);
            for (var i = 0u; i < 8u * COLUMN_QUADS; i++) {
                let key = first_key + i / COLUMN_QUADS * key_lanes;
                let is_column = own_quad + i % COLUMN_QUADS * THREAD_GROUP < row_quads;
                if KEEPS && (kept & (1u << (i / COLUMN_QUADS))) != 0u && key < end && is_column {
                    keep_value(matrix, key, column[i % COLUMN_QUADS], fours[i]);
                }
            }
            // Behind the loop of loads, so that none is waited for where it is issued.
            if group_key + n0 + 8u * key_lanes > end {
                for (var i = 0u; i < 8u * COLUMN_QUADS; i++) { fours[i] = select(vec4<f32>(), fours[i], first_key + i / COLUMN_QUADS * key_lanes < end); }
            }
            for (var i = 0u; i < 8u; i++) {
                let n = min(n0 + i * key_lanes + key_lane, THREAD_GROUP - 1u);
                let owner = group_lane0 + n % octets * 8u + n / octets;
                for (var r = 0u; r < ROWS; r++) {
                    let w = shuffle(weight[r], owner);
                    for (var c = 0u; c < COLUMN_QUADS; c++) { acc[r * COLUMN_QUADS + c] += w * fours[i * COLUMN_QUADS + c]; }
                }
            }
        }
    }

    // All rows are combined at once, since most of the time passes in waiting for workgroup memory.
    let groups = WORKGROUP / THREAD_GROUP;
    for (var r = 0u; r < ROWS; r++) { // unroll
        var all = weight_sum[r];
        for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { all += shuffle_xor(all, far); }
        for (var i = 0u; i < COLUMN_QUADS; i++) { // unroll
            var sum = acc[r * COLUMN_QUADS + i];
            for (var far = 1u << shift; far < THREAD_GROUP; far *= 2u) {
                sum += vec4<f32>(shuffle_xor(sum.x, far), shuffle_xor(sum.y, far), shuffle_xor(sum.z, far), shuffle_xor(sum.w, far));
            }
            if key_lane == 0u { part[(r * COLUMN_QUADS + i) * WORKGROUP + thread] = sum; }
        }
        if member == 0u {
            group_max[r * groups + thread / THREAD_GROUP] = high[r];
            group_sum[r * groups + thread / THREAD_GROUP] = all;
        }
    }
    workgroupBarrier();
    let r = thread >> shift;
    let column = thread & ((1u << shift) - 1u);
    if r < ROWS && row0 + r < p.rows && column < row_quads {
        var top = p.lowest;
        for (var t = 0u; t < groups; t++) { top = max(top, group_max[r * groups + t]); }
        var sum = vec4<f32>();
        var weights = 0.0;
        for (var t = 0u; t < groups; t++) {
            let rescale = exp(group_max[r * groups + t] - top);
            weights += rescale * group_sum[r * groups + t];
            sum += rescale * part[(r * COLUMN_QUADS + column / THREAD_GROUP) * WORKGROUP + t * THREAD_GROUP + column % THREAD_GROUP];
        }
        let to = y_row(matrix, row0 + r, split);
        y_quad_put(to + column, finish(sum, weights));
        if PARTIAL == 1u && column == 0u { y_quad_put(to + row_quads, vec4<f32>(top, weights, 0.0, 0.0)); }
    }
}
