// flash_decode (see there for the formula) with subgroup shuffles. A thread group of THREAD_GROUP threads visits as many keys at a
// time and keeps a running maximum of its own, without barriers until all thread groups of the workgroup are combined. For scores,
// eight threads (an octet) share eight keys and then reduce, so that each has the score of one; for y, a thread owns COLUMN_QUADS
// quads of columns. In rope_flash_decode, either these threads write the KV cache (KEEPS) or further
// workgroups (`write_caches`).

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
fn q_four(base: u32, c: u32) -> vec4<f32> { return q[(base + c) / 4u]; }
fn k_four(base: u32, c: u32) -> vec4<f32> { return k[(base + c) / 4u]; }
fn v_four(base: u32, c: u32) -> vec4<f32> { return v[(base + c) / 4u]; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn scores(dots: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return dots; }
fn y_row(matrix: u32, row: u32, split: u32) -> u32 { return (matrix * p.rows + row) * (p.v_dim / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
fn shuffle_xor(v: f32, far: u32) -> f32 { return v; }
fn shuffle(v: f32, lane: u32) -> f32 { return v; }
fn stage_newest(at: vec2<u32>, thread: u32) {}
fn newest_key(quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn newest_value(quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn key_four(base: u32, key: u32, c: u32, newest: vec4<f32>) -> vec4<f32> { return k_four(base + key * p.k_strides.w, c); }
fn value_four(base: u32, key: u32, c: u32, newest: vec4<f32>) -> vec4<f32> { return v_four(base + key * p.v_strides.w, c); }
fn keep_key(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
fn keep_value(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
fn write_caches(group: u32, thread: u32) {}
struct Params {
    head_dim: u32, v_dim: u32, queries: u32, keys: u32, rows: u32, kv_heads: u32, matrices: u32, row_tiles: u32, splits: u32,
    split_keys: u32, causal: u32, scale: f32, softcap: f32, neg_inf: f32, nan: f32, lowest: f32, offsets: vec4<u32>,
    inner_strides: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, mask_strides: vec4<u32>,
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
    @builtin(num_workgroups) count: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits / p.row_tiles;
    if matrix >= p.matrices { write_caches(group - p.matrices * p.row_tiles * p.splits, thread); return; }
    let split = group % p.splits;
    let row_tile = group / p.splits % p.row_tiles;
    let row0 = row_tile * ROWS;
    let at = vec2<u32>(matrix / p.kv_heads, matrix % p.kv_heads);
    let k_base = p.offsets.y + at.x * p.k_strides.x + at.y * p.k_strides.y;
    let v_base = p.offsets.z + at.x * p.v_strides.x + at.y * p.v_strides.y;
    let q_base = p.offsets.x + at.x * p.q_strides.x + at.y * p.q_strides.y;
    let mask_base = p.offsets.w + at.x * p.mask_strides.x + at.y * p.mask_strides.y;
    let first = split * p.split_keys;
    let last = min(first + p.split_keys, p.keys);

    let q_quads = p.head_dim / 4u;
    for (var i = thread; i < ROWS * ROW; i += WORKGROUP) {
        if i % ROW >= q_quads { continue; }
        let row = min(row0 + i / ROW, p.rows - 1u);
        query[i] = q_four(q_base + row / p.queries * p.q_strides.z + row % p.queries * p.q_strides.w, i % ROW * 4u);
    }
    stage_newest(at, thread);
    // Rows past the last repeat it and are not written.
    var mask_at: array<u32, ROWS>;
    var visible: array<u32, ROWS>;
    var high: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let row = min(row0 + r, p.rows - 1u);
        mask_at[r] = mask_base + row / p.queries * p.mask_strides.z + row % p.queries * p.mask_strides.w;
        let causal = u32(max(i32(row % p.queries) + 1 + i32(p.keys) - i32(p.queries), 0));
        visible[r] = select(last, min(causal, last), p.causal == 1u);
        high[r] = p.lowest;
    }
    let row_quads = p.v_dim / 4u;
    let key_lanes = max(THREAD_GROUP / row_quads, 1u); // keys that a thread group accumulates at a time
    let member = thread % THREAD_GROUP;
    let key_lane = member / row_quads;
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
        var dots: array<f32, 8u * ROWS>;
        for (var i = 0u; i < 8u * ROWS; i++) { dots[i] = 0.0; }
        for (var c = octet_lane; c < q_quads; c += 8u) {
            var fours: array<vec4<f32>, 8>;
            let newest = newest_key(c);
            for (var i = 0u; i < 8u; i++) {
                let key = min(group_key + i * octets + member / 8u, p.keys - 1u);
                fours[i] = key_four(k_base, key, c * 4u, newest);
            }
            for (var i = 0u; i < 8u; i++) {
                let key = group_key + i * octets + member / 8u;
                if KEEPS && (kept & (1u << i)) != 0u && key < last { keep_key(matrix, key, c, fours[i]); }
            }
            for (var r = 0u; r < ROWS; r++) {
                let four = query[r * ROW + c];
                for (var i = 0u; i < 8u; i++) { dots[r * 8u + i] += dot(four, fours[i]); }
            }
        }
        let j = group_key + octet_lane * octets + member / 8u;
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
            let quad = min(member % row_quads + i * THREAD_GROUP, row_quads - 1u);
            column[i] = quad * 4u;
            newest[i] = newest_value(quad);
        }
        // Eight loads in flight at a time.
        for (var n0 = 0u; n0 < THREAD_GROUP; n0 += 8u * key_lanes) {
            var fours: array<vec4<f32>, 8u * COLUMN_QUADS>;
            for (var i = 0u; i < 8u * COLUMN_QUADS; i++) {
                let key = min(group_key + n0 + i / COLUMN_QUADS * key_lanes + key_lane, p.keys - 1u);
                fours[i] = value_four(v_base, key, column[i % COLUMN_QUADS], newest[i % COLUMN_QUADS]);
            }
            let there = min(THREAD_GROUP, last - min(group_key, last));
            for (var i = 0u; i < 8u * COLUMN_QUADS; i++) {
                let n = n0 + i / COLUMN_QUADS * key_lanes + key_lane;
                if KEEPS && (kept & (1u << (i / COLUMN_QUADS))) != 0u && n < there && key_lane < key_lanes {
                    keep_value(matrix, group_key + n, column[i % COLUMN_QUADS] / 4u, fours[i]);
                }
            }
            // Behind the loop of loads, so that none is waited for where it is issued.
            if n0 + 8u * key_lanes > there {
                for (var i = 0u; i < 8u * COLUMN_QUADS; i++) {
                    fours[i] = select(vec4<f32>(), fours[i], n0 + i / COLUMN_QUADS * key_lanes + key_lane < there);
                }
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
    for (var r = 0u; r < ROWS; r++) {
        var all = weight_sum[r];
        for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { all += shuffle_xor(all, far); }
        for (var i = 0u; i < COLUMN_QUADS; i++) { part[(r * COLUMN_QUADS + i) * WORKGROUP + thread] = acc[r * COLUMN_QUADS + i]; }
        if member == 0u {
            group_max[r * groups + thread / THREAD_GROUP] = high[r];
            group_sum[r * groups + thread / THREAD_GROUP] = all;
        }
    }
    workgroupBarrier();
    for (var i = thread; i < ROWS * row_quads; i += WORKGROUP) {
        let r = i / row_quads;
        let column = i % row_quads;
        if row0 + r >= p.rows { break; }
        var top = p.lowest;
        for (var t = r * groups; t < (r + 1u) * groups; t++) { top = max(top, group_max[t]); }
        var sum = vec4<f32>();
        var weights = 0.0;
        for (var t = 0u; t < groups; t++) {
            let rescale = exp(group_max[r * groups + t] - top);
            weights += rescale * group_sum[r * groups + t];
            for (var u = 0u; u < key_lanes; u++) {
                let owner = u * row_quads + column;
                sum += rescale * part[(r * COLUMN_QUADS + owner / THREAD_GROUP) * WORKGROUP + t * THREAD_GROUP + owner % THREAD_GROUP];
            }
        }
        let to = y_row(matrix, row0 + r, split);
        y_quad_put(to + column, finish(sum, weights));
        if PARTIAL == 1u && column == 0u { y_quad_put(to + row_quads, vec4<f32>(top, weights, 0.0, 0.0)); }
    }
}
