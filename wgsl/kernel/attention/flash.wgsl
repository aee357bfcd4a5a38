// y[i, c] = sum over j of softmax_j(s[i, j]) v[j, c] for s[i, j] = cap tanh(scale / cap q[i] . k[j]) + mask[i, j].
// Rows i are the queries of all heads that share a k and a v. A workgroup owns 16 TM rows and a run of keys j, of which it
// sees 32 at a time; a thread TM rows of four of these keys, and TM rows of TQ times four columns of y.

// slots: as it stands this file is the f32 case of rows that start at whole quads.
alias Q = vec4<f32>;
alias K = vec4<f32>;
alias V = vec4<f32>;
alias MASK = f32;
alias Y = vec4<f32>;
const TM = 4u;
const TQ = 4u;
fn q_four(base: u32, c: u32) -> vec4<f32> { return q[(base + c) / 4u]; }
fn k_four(base: u32, c: u32) -> vec4<f32> { return k[(base + c) / 4u]; }
fn v_four(base: u32, c: u32) -> vec4<f32> { return v[(base + c) / 4u]; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn scores(products: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return products; }
fn place(row: u32, split: u32) -> u32 { return row * (p.columns / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
// end slots

struct Params {
    d: u32,       // of q and k
    columns: u32, // of v and y
    queries: u32,
    keys: u32,
    rows: u32,    // queries of all heads that share a k and a v
    heads: u32,   // of k and v
    batch: u32,   // times heads
    tiles: u32,   // of rows
    splits: u32,  // of keys
    span: u32,    // keys of a split
    causal: u32,
    scale: f32,   // over cap, if there is one
    cap: f32,     // 1 for none
    hidden: f32,  // -inf
    nan: f32,
    lowest: f32,
    offsets: vec4<u32>,      // of q, k, v and mask
    steps: vec4<u32>,        // along the last dim
    q_strides: vec4<u32>,    // batch, head of k, head of q among those that share it, query
    k_strides: vec4<u32>,    // batch, head, -, key
    v_strides: vec4<u32>,    // the same
    mask_strides: vec4<u32>, // as q
    fill_offset: u32, // of what a mask puts in the place of scores
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<Q>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
@group(0) @binding(4) var<storage, read> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u; // 16 x 8 threads
override MASKED: u32 = 0u;
override PARTS: u32 = 0u; // y gets sums of a split, and behind each row its maximum and its sum of weights

const BM = 16u * TM;
const PITCH = 5u; // quads of a staged row, one more than are used: rows start in other memory banks
const QN = TM / 2u; // quads of q that a thread stages
const VN = 32u / TQ; // keys of v at a time
var<workgroup> tile: array<vec4<f32>, (BM + 32u) * PITCH>; // 16 columns of q and k, or VN rows of v
var<workgroup> weight: array<vec4<f32>, BM * 8u>; // a row's 32 keys, by fours

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits / p.tiles;
    if matrix >= p.batch { return; }
    let split = group % p.splits;
    let row0 = group / p.splits % p.tiles * BM;
    let at = vec2<u32>(matrix / p.heads, matrix % p.heads);
    let k_base = p.offsets.y + at.x * p.k_strides.x + at.y * p.k_strides.y;
    let v_base = p.offsets.z + at.x * p.v_strides.x + at.y * p.v_strides.y;

    // The keys that some row of the tile sees.
    let end = min(row0 + BM, p.rows) - 1u;
    let newest = select(p.queries - 1u, end % p.queries, row0 / p.queries == end / p.queries);
    let seen = u32(max(i32(newest) + 1 + i32(p.keys) - i32(p.queries), 0));
    let first = split * p.span;
    let last = min(min(first + p.span, p.keys), select(p.keys, seen, p.causal == 1u));

    // Where the rows lie that the thread stages.
    let lane = thread % 4u;
    var q_at: array<u32, QN>;
    for (var n = 0u; n < QN; n++) {
        let row = min(row0 + thread / 4u + n * 32u, p.rows - 1u);
        q_at[n] = p.offsets.x + at.x * p.q_strides.x + at.y * p.q_strides.y
            + row / p.queries * p.q_strides.z + row % p.queries * p.q_strides.w;
    }
    // The rows that it computes: where their masks lie, and how many keys they see.
    let thread_group = thread / 8u;
    let lead = thread % 8u;
    var mask_at: array<u32, TM>;
    var sight: array<u32, TM>;
    for (var i = 0u; i < TM; i++) {
        let row = min(row0 + thread_group * TM + i, p.rows - 1u);
        mask_at[i] = p.offsets.w + at.x * p.mask_strides.x + at.y * p.mask_strides.y
            + row / p.queries * p.mask_strides.z + row % p.queries * p.mask_strides.w;
        let causal = u32(max(i32(row % p.queries) + 1 + i32(p.keys) - i32(p.queries), 0));
        sight[i] = select(p.keys, min(causal, p.keys), p.causal == 1u);
    }

    var acc: array<vec4<f32>, TM * TQ>;
    var high: array<f32, TM>;
    var total: array<f32, TM>;
    for (var i = 0u; i < TM; i++) { high[i] = p.lowest; }
    for (var j0 = first; j0 < last; j0 += 32u) {
        var s: array<vec4<f32>, TM>;
        for (var i = 0u; i < TM; i++) { s[i] = vec4<f32>(); }
        let key = j0 + thread / 4u;
        let k_at = k_base + key * p.k_strides.w;
        var q_hold: array<vec4<f32>, QN>;
        for (var n = 0u; n < QN; n++) { q_hold[n] = q_or_zero(q_at[n], lane * 4u); }
        var k_hold = k_or_zero(k_at, key, lane * 4u);
        for (var c0 = 0u; c0 < p.d; c0 += 16u) {
            for (var n = 0u; n < QN; n++) { tile[(thread / 4u + n * 32u) * PITCH + lane] = q_hold[n]; }
            // Every fourth key, then the next ones: what eight threads read together lies in other banks.
            tile[(BM + thread / 4u % 4u * 8u + thread / 16u) * PITCH + lane] = k_hold;
            workgroupBarrier();
            let c = c0 + 16u + lane * 4u;
            for (var n = 0u; n < QN; n++) { q_hold[n] = q_or_zero(q_at[n], c); }
            k_hold = k_or_zero(k_at, key, c);
            for (var quad = 0u; quad < 4u; quad++) {
                let right = (BM + lead) * PITCH + quad;
                let a = tile[right];
                let b = tile[right + 8u * PITCH];
                let e = tile[right + 16u * PITCH];
                let f = tile[right + 24u * PITCH];
                for (var i = 0u; i < TM; i++) {
                    let left = tile[(thread_group * TM + i) * PITCH + quad];
                    s[i] += vec4<f32>(dot(left, a), dot(left, b), dot(left, e), dot(left, f));
                }
            }
            workgroupBarrier();
        }

        let own = j0 + lead * 4u;
        for (var i = 0u; i < TM; i++) {
            let score = scores(s[i] * p.scale, mask_at[i], own);
            s[i] = select(vec4<f32>(p.hidden), score, vec4<u32>(own) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(sight[i]));
            let top = max(max(s[i].x, s[i].y), max(s[i].z, s[i].w));
            weight[(thread_group * TM + i) * 8u + lead] = vec4<f32>(top);
        }
        workgroupBarrier();
        for (var i = 0u; i < TM; i++) {
            var top = high[i];
            for (var t = 0u; t < 8u; t++) { top = max(top, weight[(thread_group * TM + i) * 8u + t].x); }
            let shrink = exp(high[i] - top);
            high[i] = top;
            s[i] = exp(s[i] - vec4<f32>(top));
            total[i] = total[i] * shrink + ((s[i].x + s[i].y) + (s[i].z + s[i].w));
            for (var t = 0u; t < TQ; t++) { acc[i * TQ + t] *= shrink; }
        }
        workgroupBarrier();
        for (var i = 0u; i < TM; i++) { weight[(thread_group * TM + i) * 8u + lead] = s[i]; }

        var one = v_or_zero(v_base, j0, thread);
        var two = v_or_zero(v_base, j0, thread + 128u);
        for (var j = 0u; j < 32u; j += VN) {
            tile[thread] = one;
            tile[thread + 128u] = two;
            workgroupBarrier();
            one = v_or_zero(v_base, j0 + j + VN, thread);
            two = v_or_zero(v_base, j0 + j + VN, thread + 128u);
            for (var quad = 0u; quad < VN / 4u; quad++) {
                for (var t = 0u; t < TQ; t++) {
                    let start = quad * 32u * TQ + t * 8u + lead;
                    let a = tile[start];
                    let b = tile[start + 8u * TQ];
                    let e = tile[start + 16u * TQ];
                    let f = tile[start + 24u * TQ];
                    for (var i = 0u; i < TM; i++) {
                        let w = weight[(thread_group * TM + i) * 8u + j / 4u + quad];
                        acc[i * TQ + t] += w.x * a + w.y * b + w.z * e + w.w * f;
                    }
                }
            }
            workgroupBarrier();
        }
    }

    for (var i = 0u; i < TM; i++) { weight[(thread_group * TM + i) * 8u + lead] = vec4<f32>(total[i]); }
    workgroupBarrier();
    for (var i = 0u; i < TM; i++) {
        let row = row0 + thread_group * TM + i;
        if row < p.rows {
            var sum = 0.0;
            for (var t = 0u; t < 8u; t++) { sum += weight[(thread_group * TM + i) * 8u + t].x; }
            let to = place(matrix * p.rows + row, split);
            for (var t = 0u; t < TQ; t++) {
                let quad = t * 8u + lead;
                if quad * 4u < p.columns { y_quad_put(to + quad, finish(acc[i * TQ + t], sum)); }
            }
            if PARTS == 1u && lead == 0u { y_quad_put(to + p.columns / 4u, vec4<f32>(high[i], sum, 0.0, 0.0)); }
        }
    }
}

fn q_or_zero(at: u32, c: u32) -> vec4<f32> {
    if c < p.d { return q_four(at, c); }
    return vec4<f32>();
}

fn k_or_zero(at: u32, key: u32, c: u32) -> vec4<f32> {
    if c < p.d && key < p.keys { return k_four(at, c); }
    return vec4<f32>();
}

// Quad i of the rows of v from `key` on, as they are staged.
fn v_or_zero(base: u32, key: u32, i: u32) -> vec4<f32> {
    let at = vec2<u32>(key + i / (8u * TQ), i % (8u * TQ) * 4u);
    if at.x < p.keys && at.y < p.columns { return v_four(base + at.x * p.v_strides.w, at.y); }
    return vec4<f32>();
}
