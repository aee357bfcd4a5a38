// As flash_decode, where threads of a subgroup see each other's registers: a thread_group of THREAD_GROUP threads takes a run of as many keys at a
// time, with a maximum of its own, and waits for nobody until all teams put their sums together. Eight threads multiply with
// eight rows of k, after which each has the score of one; for sums a thread of a thread_group owns PER quads of columns.

// slots: as it stands this file is the f32 case of rows that start at whole quads, without subgroups.
alias Q = vec4<f32>;
alias K = vec4<f32>;
alias V = vec4<f32>;
alias MASK = f32;
alias Y = vec4<f32>;
const ROWS = 4u;
const PER = 1u;
fn q_four(base: u32, c: u32) -> vec4<f32> { return q[(base + c) / 4u]; }
fn k_four(base: u32, c: u32) -> vec4<f32> { return k[(base + c) / 4u]; }
fn v_four(base: u32, c: u32) -> vec4<f32> { return v[(base + c) / 4u]; }
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn scores(products: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return products; }
fn place(row: u32, split: u32) -> u32 { return row * (p.columns / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
fn of_far(v: f32, far: u32) -> f32 { return v; }
fn of_lane(v: f32, lane: u32) -> f32 { return v; }
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
override WORKGROUP: u32 = 256u; // a thread for a key
override THREAD_GROUP: u32 = 8u; // a power of two, no more than a subgroup has
override MASKED: u32 = 0u;
override PARTS: u32 = 0u; // y gets sums of a split, and behind each row its maximum and its sum of weights

var<workgroup> part: array<vec4<f32>, PER * WORKGROUP>;
var<workgroup> tops: array<f32, WORKGROUP / THREAD_GROUP>;
var<workgroup> totals: array<f32, WORKGROUP / THREAD_GROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits / p.tiles;
    if matrix >= p.batch { return; }
    let split = group % p.splits;
    let row0 = group / p.splits % p.tiles * ROWS;
    let at = vec2<u32>(matrix / p.heads, matrix % p.heads);
    let k_base = p.offsets.y + at.x * p.k_strides.x + at.y * p.k_strides.y;
    let v_base = p.offsets.z + at.x * p.v_strides.x + at.y * p.v_strides.y;
    let q_base = p.offsets.x + at.x * p.q_strides.x + at.y * p.q_strides.y;
    let mask_base = p.offsets.w + at.x * p.mask_strides.x + at.y * p.mask_strides.y;
    let first = split * p.span;
    let last = min(first + p.span, p.keys);

    // Rows past the last repeat it and are not written.
    var q_at: array<u32, ROWS>;
    var mask_at: array<u32, ROWS>;
    var sight: array<u32, ROWS>;
    var high: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let row = min(row0 + r, p.rows - 1u);
        q_at[r] = q_base + row / p.queries * p.q_strides.z + row % p.queries * p.q_strides.w;
        mask_at[r] = mask_base + row / p.queries * p.mask_strides.z + row % p.queries * p.mask_strides.w;
        let causal = u32(max(i32(row % p.queries) + 1 + i32(p.keys) - i32(p.queries), 0));
        sight[r] = select(last, min(causal, last), p.causal == 1u);
        high[r] = p.lowest;
    }
    let width = p.columns / 4u;
    let runs = max(THREAD_GROUP / width, 1u); // keys that a thread_group adds at a time
    let member = thread % THREAD_GROUP;
    let run = member / width;
    let thread_group0 = lane - lane % THREAD_GROUP; // the lane of the thread_group's first thread
    // Of eight neighbours of a thread_group each sees every `each`th key.
    let each = THREAD_GROUP / 8u;
    let eighth = member % 8u;
    var acc: array<vec4<f32>, PER * ROWS>;
    var total: array<f32, ROWS>;

    for (var j0 = first; j0 < last; j0 += WORKGROUP) {
        // Keys past the last repeat it and weigh nothing.
        let j_thread_group = j0 + thread - member;
        var products: array<f32, 8u * ROWS>;
        for (var i = 0u; i < 8u * ROWS; i++) { products[i] = 0.0; }
        for (var c = eighth; c < p.d / 4u; c += 8u) {
            var fours: array<vec4<f32>, 8>;
            for (var i = 0u; i < 8u; i++) {
                let key = min(j_thread_group + i * each + member / 8u, p.keys - 1u);
                fours[i] = k_four(k_base + key * p.k_strides.w, c * 4u);
            }
            for (var r = 0u; r < ROWS; r++) {
                let four = q_four(q_at[r], c * 4u);
                for (var i = 0u; i < 8u; i++) { products[r * 8u + i] += dot(four, fours[i]); }
            }
        }
        let j = j_thread_group + eighth * each + member / 8u;
        var weight: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) {
            // Each hands over the half that it does not keep.
            var halves: array<f32, 4>;
            for (var i = 0u; i < 4u; i++) {
                let pair = vec2<f32>(products[r * 8u + i], products[r * 8u + 4u + i]);
                halves[i] = select(pair.x, pair.y, (eighth & 4u) != 0u) + of_far(select(pair.y, pair.x, (eighth & 4u) != 0u), 4u);
            }
            var two: array<f32, 2>;
            for (var i = 0u; i < 2u; i++) {
                let pair = vec2<f32>(halves[i], halves[2u + i]);
                two[i] = select(pair.x, pair.y, (eighth & 2u) != 0u) + of_far(select(pair.y, pair.x, (eighth & 2u) != 0u), 2u);
            }
            let odd = (eighth & 1u) != 0u;
            let product = select(two[0], two[1], odd) + of_far(select(two[1], two[0], odd), 1u);
            let s = scores(vec4<f32>(product * p.scale), mask_at[r], j).x;
            let score = select(p.hidden, s, j < sight[r]);
            var top = max(high[r], score);
            for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { top = max(top, of_far(top, far)); }
            let shrink = exp(high[r] - top);
            high[r] = top;
            weight[r] = exp(score - top);
            total[r] = total[r] * shrink + weight[r];
            for (var i = 0u; i < PER; i++) { acc[r * PER + i] *= shrink; }
        }
        // Eight loads under way at a time.
        for (var n0 = 0u; n0 < THREAD_GROUP; n0 += 8u * runs) {
            var fours: array<vec4<f32>, 8u * PER>;
            for (var i = 0u; i < 8u * PER; i++) {
                let n = n0 + i / PER * runs + run;
                let at = v_base + min(j_thread_group + n, p.keys - 1u) * p.v_strides.w;
                let column = min(member % width + i % PER * THREAD_GROUP, width - 1u);
                let is_there = run < runs && n < THREAD_GROUP && j_thread_group + n < last;
                fours[i] = select(vec4<f32>(), v_four(at, column * 4u), is_there);
            }
            for (var i = 0u; i < 8u; i++) {
                let n = min(n0 + i * runs + run, THREAD_GROUP - 1u);
                let owner = thread_group0 + n % each * 8u + n / each;
                for (var r = 0u; r < ROWS; r++) {
                    let w = of_lane(weight[r], owner);
                    for (var c = 0u; c < PER; c++) { acc[r * PER + c] += w * fours[i * PER + c]; }
                }
            }
        }
    }

    for (var r = 0u; r < ROWS; r++) {
        var all = total[r];
        for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { all += of_far(all, far); }
        workgroupBarrier();
        for (var i = 0u; i < PER; i++) { part[i * WORKGROUP + thread] = acc[r * PER + i]; }
        if member == 0u {
            tops[thread / THREAD_GROUP] = high[r];
            totals[thread / THREAD_GROUP] = all;
        }
        workgroupBarrier();
        let row = row0 + r;
        if row < p.rows && thread < width {
            var top = p.lowest;
            for (var t = 0u; t < WORKGROUP / THREAD_GROUP; t++) { top = max(top, tops[t]); }
            var sum = vec4<f32>();
            var weights = 0.0;
            for (var t = 0u; t < WORKGROUP / THREAD_GROUP; t++) {
                let shrink = exp(tops[t] - top);
                weights += shrink * totals[t];
                for (var u = 0u; u < runs; u++) {
                    let owner = u * width + thread;
                    sum += shrink * part[owner / THREAD_GROUP * WORKGROUP + t * THREAD_GROUP + owner % THREAD_GROUP];
                }
            }
            let to = place(matrix * p.rows + row, split);
            y_quad_put(to + thread, finish(sum, weights));
            if PARTS == 1u && thread == 0u { y_quad_put(to + width, vec4<f32>(top, weights, 0.0, 0.0)); }
        }
    }
}
