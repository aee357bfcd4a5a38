// Attention with grouped queries: y[i, c] = sum_j softmax_j(s[i, j]) v[j, c], where
// s[i, j] = softcap tanh(scale / softcap q[i] . k[j]) + mask[i, j]. Rows i are the queries of all query heads that share a KV head.
// A workgroup owns 16 TM rows and a split of the keys, which it visits 32 at a time. A thread owns the scores of TM rows with four
// of these keys, and TM rows by TQ quads of columns of y.

// slots: as it stands this file is the f32 case of rows that start at whole quads.
alias Q = vec4<f32>;
alias K = vec4<f32>;
alias V = vec4<f32>;
alias MASK = f32;
alias Y = vec4<f32>;
const TM = 4u;
const TQ = 4u;
fn tile_place(thread: u32, across: u32) -> vec2<u32> { return vec2<u32>(thread / across, thread % across); }
fn q_four(base: u32, c: u32) -> vec4<f32> { return q[(base + c) / 4u]; }
fn k_four(base: u32, c: u32) -> vec4<f32> { return k[(base + c) / 4u]; }
fn v_four(base: u32, c: u32) -> vec4<f32> { return v[(base + c) / 4u]; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn scores(dots: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return dots; }
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
@group(0) @binding(1) var<storage, read> q: array<Q>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
@group(0) @binding(4) var<storage, read> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u; // 16 x 8 threads
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u; // y gets partial results: of each row and split accumulators and a quad (maximum, sum of weights)

const BM = 16u * TM;
const PITCH = 5u; // quads of a staged row, padded by one so that rows start in different memory banks
const QN = TM / 2u; // quads of q that a thread stages
const VN = 32u / TQ; // keys of v staged at a time
var<workgroup> tile: array<vec4<f32>, (BM + 32u) * PITCH>; // 16 columns of q and k, or VN rows of v
var<workgroup> weight: array<vec4<f32>, BM * 8u>; // the weights of a row: 32 keys in quads

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group >= p.splits * p.row_tiles * p.matrices { return; }
    var own = row_tile(group, BM);
    let k_base = p.offsets.y + matrix_at(own.matrix, p.k_strides);
    let v_base = p.offsets.z + matrix_at(own.matrix, p.v_strides);

    // Rows past the last repeat it and are not written. First the rows of q that the thread stages,
    let lane = thread % 4u;
    var q_at: array<u32, QN>;
    for (var n = 0u; n < QN; n++) {
        let row = min(own.row0 + thread / 4u + n * 32u, own.end - 1u);
        q_at[n] = p.offsets.x + matrix_at(own.matrix, p.q_strides) + row_at(row, p.q_strides);
    }
    // then the rows that it computes: where their masks lie, and how many keys they see.
    let place = tile_place(thread, 8u);
    let thread_row = place.x;
    let thread_column = place.y;
    var mask_at: array<u32, TM>;
    var visible: array<u32, TM>;
    for (var i = 0u; i < TM; i++) {
        let row = min(own.row0 + thread_row * TM + i, own.end - 1u);
        mask_at[i] = mask_row(own.matrix, row);
        visible[i] = seen_by(row);
    }

    var acc: array<vec4<f32>, TM * TQ>;
    var high: array<f32, TM>;
    var weight_sum: array<f32, TM>;
    for (var i = 0u; i < TM; i++) { high[i] = p.lowest; }
    for (var j0 = next_visible(&own, own.first); j0 < own.last; j0 = next_visible(&own, j0 + 32u)) {
        var s: array<vec4<f32>, TM>;
        for (var i = 0u; i < TM; i++) { s[i] = vec4<f32>(); }
        let key = j0 + thread / 4u;
        let k_at = k_base + key * p.k_strides.w;
        var q_next: array<vec4<f32>, QN>;
        for (var n = 0u; n < QN; n++) { q_next[n] = q_or_zero(q_at[n], lane * 4u); }
        var k_next = k_or_zero(k_at, key, lane * 4u);
        for (var c0 = 0u; c0 < p.head_dim; c0 += 16u) {
            for (var n = 0u; n < QN; n++) { tile[(thread / 4u + n * 32u) * PITCH + lane] = q_next[n]; }
            // In the order 0, 4, 8, .. 1, 5, ..: eight threads that read together use different banks.
            tile[(BM + thread / 4u % 4u * 8u + thread / 16u) * PITCH + lane] = k_next;
            workgroupBarrier();
            let c = c0 + 16u + lane * 4u;
            for (var n = 0u; n < QN; n++) { q_next[n] = q_or_zero(q_at[n], c); }
            k_next = k_or_zero(k_at, key, c);
            for (var quad = 0u; quad < 4u; quad++) {
                let right = (BM + thread_column) * PITCH + quad;
                let a = tile[right];
                let b = tile[right + 8u * PITCH];
                let e = tile[right + 16u * PITCH];
                let f = tile[right + 24u * PITCH];
                for (var i = 0u; i < TM; i++) {
                    let left = tile[(thread_row * TM + i) * PITCH + quad];
                    // Not dot(): a product is added to the sum of the one before in one instruction.
                    s[i] += left.x * vec4<f32>(a.x, b.x, e.x, f.x);
                    s[i] += left.y * vec4<f32>(a.y, b.y, e.y, f.y);
                    s[i] += left.z * vec4<f32>(a.z, b.z, e.z, f.z);
                    s[i] += left.w * vec4<f32>(a.w, b.w, e.w, f.w);
                }
            }
            workgroupBarrier();
        }

        let own_key = j0 + thread_column * 4u;
        for (var i = 0u; i < TM; i++) {
            let score = scores(s[i] * p.scale, mask_at[i], own_key);
            s[i] = select(vec4<f32>(p.neg_inf), score, vec4<u32>(own_key) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(visible[i]));
            let top = max(max(s[i].x, s[i].y), max(s[i].z, s[i].w));
            weight[(thread_row * TM + i) * 8u + thread_column] = vec4<f32>(top);
        }
        workgroupBarrier();
        for (var i = 0u; i < TM; i++) {
            var top = high[i];
            for (var t = 0u; t < 8u; t++) { top = max(top, weight[(thread_row * TM + i) * 8u + t].x); }
            let rescale = exp(high[i] - top);
            high[i] = top;
            s[i] = exp(s[i] - vec4<f32>(top));
            weight_sum[i] = weight_sum[i] * rescale + ((s[i].x + s[i].y) + (s[i].z + s[i].w));
            for (var t = 0u; t < TQ; t++) { acc[i * TQ + t] *= rescale; }
        }
        workgroupBarrier();
        for (var i = 0u; i < TM; i++) { weight[(thread_row * TM + i) * 8u + thread_column] = s[i]; }

        var v_next0 = v_or_zero(v_base, j0, thread);
        var v_next1 = v_or_zero(v_base, j0, thread + 128u);
        for (var j = 0u; j < 32u; j += VN) {
            tile[thread] = v_next0;
            tile[thread + 128u] = v_next1;
            workgroupBarrier();
            v_next0 = v_or_zero(v_base, j0 + j + VN, thread);
            v_next1 = v_or_zero(v_base, j0 + j + VN, thread + 128u);
            for (var quad = 0u; quad < VN / 4u; quad++) {
                for (var t = 0u; t < TQ; t++) {
                    let start = quad * 32u * TQ + t * 8u + thread_column;
                    let a = tile[start];
                    let b = tile[start + 8u * TQ];
                    let e = tile[start + 16u * TQ];
                    let f = tile[start + 24u * TQ];
                    for (var i = 0u; i < TM; i++) {
                        let w = weight[(thread_row * TM + i) * 8u + j / 4u + quad];
                        acc[i * TQ + t] += w.x * a;
                        acc[i * TQ + t] += w.y * b;
                        acc[i * TQ + t] += w.z * e;
                        acc[i * TQ + t] += w.w * f;
                    }
                }
            }
            workgroupBarrier();
        }
    }

    for (var i = 0u; i < TM; i++) { weight[(thread_row * TM + i) * 8u + thread_column] = vec4<f32>(weight_sum[i]); }
    workgroupBarrier();
    for (var i = 0u; i < TM; i++) {
        let row = own.row0 + thread_row * TM + i;
        if row < own.end {
            var sum = 0.0;
            for (var t = 0u; t < 8u; t++) { sum += weight[(thread_row * TM + i) * 8u + t].x; }
            let to = y_row(own.matrix, row, own.split);
            for (var t = 0u; t < TQ; t++) {
                let quad = t * 8u + thread_column;
                if quad * 4u < p.v_dim { y_quad_put(to + quad, finish(acc[i * TQ + t], sum)); }
            }
            if PARTIAL == 1u && thread_column == 0u { y_quad_put(to + p.v_dim / 4u, vec4<f32>(high[i], sum, 0.0, 0.0)); }
        }
    }
}

fn q_or_zero(at: u32, c: u32) -> vec4<f32> {
    if c < p.head_dim { return q_four(at, c); }
    return vec4<f32>();
}

fn k_or_zero(at: u32, key: u32, c: u32) -> vec4<f32> {
    if c < p.head_dim && key < p.keys { return k_four(at, c); }
    return vec4<f32>();
}

// Quad i, in staging order, of the rows of v that start at `key`.
fn v_or_zero(base: u32, key: u32, i: u32) -> vec4<f32> {
    let at = vec2<u32>(key + i / (8u * TQ), i % (8u * TQ) * 4u);
    if at.x < p.keys && at.y < p.v_dim { return v_four(base + at.x * p.v_strides.w, at.y); }
    return vec4<f32>();
}
