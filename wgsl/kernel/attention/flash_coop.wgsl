enable f16;
enable wgpu_cooperative_matrix;

// y[i, c] = sum over j of softmax_j(s[i, j]) v[j, c] for s[i, j] = cap tanh(scale / cap q[i] . k[j]) + mask[i, j], in f16 with
// cooperative matrices. Rows i are the queries of all heads that share a k and a v. A workgroup of four subgroups owns 64 rows,
// a subgroup 16 of them, and a run of keys j, of which it sees 32 at a time; two lanes share a row of scores. It goes over the
// keys twice: for the greatest score of each row, and for the sums, which so are never rescaled and stay in matrices.
//
// What is only read is bound as if it were written: see gemm_coop.

// slots: as it stands this file is the case of up to 64 columns.
alias MASK = f32;
alias Y = vec4<f32>;
const D = 64u; // columns of q, k and v, with zeros behind theirs
fn y_quad_put(i: u32, four: vec4<f32>) { y[i] = four; }
fn capped(products: vec4<f32>) -> vec4<f32> { return products; }
fn masked_four(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> { return s; }
fn place(row: u32, split: u32) -> u32 { return row * (p.columns / 4u); }
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> { return sum / weights; }
// Written out by the linker: compilers keep matrices in registers only where no loop indexes them.
fn take_rows(row: u32) {
    for (var c = 0u; c < D; c += 16u) { lefts[c / 16u] = coopLoadT<Left>(&tile[(row * PITCH + c) / 4u], PITCH / 4u); }
}
fn multiply(mine: u32) {
    for (var j = 0u; j < KEYS; j += 16u) {
        var s = Sum();
        for (var c = 0u; c < D; c += 16u) { s = coopMultiplyAdd(lefts[c / 16u], key_piece(j, c), s); }
        keep_piece(s, mine + j);
    }
}
fn add_up(row: u32) {
    for (var j = 0u; j < KEYS; j += 16u) {
        let w = weight_piece(row, j);
        for (var c = 0u; c < D; c += 16u) { sums[c / 16u] = coopMultiplyAdd(w, value_piece(j, c), sums[c / 16u]); }
    }
}
fn show(c: u32, mine: u32) {
    keep_piece(sums[c / 16u], mine);
    keep_piece(sums[c / 16u + 1u], mine + 16u);
}
fn fetch_keys(thread: u32, base: u32, j0: u32) {
    for (var i = 0u; i < HOLD; i++) { k_hold[i] = key_quad(thread + i * 128u, base, j0); }
}
fn fetch_values(thread: u32, base: u32, j0: u32) {
    for (var i = 0u; i < HOLD; i++) { v_hold[i] = value_quad(thread + i * 128u, base, j0); }
}
fn stage_keys(thread: u32) {
    for (var i = 0u; i < HOLD; i++) { tile[slot(thread + i * 128u)] = k_hold[i]; }
}
fn stage_values(thread: u32) {
    for (var i = 0u; i < HOLD; i++) { tile[KEYS * PITCH / 4u + slot(thread + i * 128u)] = v_hold[i]; }
}
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
@group(0) @binding(1) var<storage, read_write> q: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> k: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read_write> v: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> mask: array<MASK>;
@group(0) @binding(5) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
override MASKED: u32 = 0u;
override PARTS: u32 = 0u; // y gets sums of a split, and behind each row its maximum and its sum of weights

const ROWS = 64u;
const KEYS = 32u;
const PITCH = D + 8u; // elements of a staged row: the rows of a piece lie on different banks
const SCORES = KEYS + 4u;
const WEIGHTS = KEYS + 8u;
const TILES = 512u; // the most of a split, a multiple of 4
const HOLD = KEYS * D / 4u / 128u; // quads of k, and of v, that a thread stages
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
var<workgroup> tile: array<vec4<f16>, ROWS * PITCH / 4u>; // the rows of q; then keys, and below them their values
var<workgroup> score: array<vec4<f32>, ROWS * SCORES / 4u>;
var<workgroup> weight: array<vec4<f16>, ROWS * WEIGHTS / 4u>;
// By bits, what the mask does to the keys of each tile.
var<workgroup> live: array<atomic<u32>, TILES / 32u>;
var<workgroup> changed: array<atomic<u32>, TILES / 32u>;
var<private> lefts: array<Left, D / 16u>;
var<private> sums: array<Sum, D / 16u>;
var<private> k_hold: array<vec4<f16>, HOLD>;
var<private> v_hold: array<vec4<f16>, HOLD>;

fn key_piece(j: u32, c: u32) -> Right { return coopLoad<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn value_piece(j: u32, c: u32) -> Right { return coopLoadT<Right>(&tile[((KEYS + j) * PITCH + c) / 4u], PITCH / 4u); }
fn weight_piece(row: u32, j: u32) -> Left { return coopLoadT<Left>(&weight[(row * WEIGHTS + j) / 4u], WEIGHTS / 4u); }
fn keep_piece(piece: Sum, at: u32) { coopStoreT(piece, &score[at / 4u], SCORES / 4u); }

// Quad i of the 32 rows from j0 on, zero where there is none. No branches, so that loads are under way together.
fn key_quad(i: u32, base: u32, j0: u32) -> vec4<f16> {
    let key = j0 + i / (D / 4u);
    let c = i % (D / 4u) * 4u;
    let quad = k[(base + min(key, p.keys - 1u) * p.k_strides.w + min(c, p.d - 4u)) / 4u];
    return select(vec4<f16>(), quad, key < p.keys && c < p.d);
}

fn value_quad(i: u32, base: u32, j0: u32) -> vec4<f16> {
    let key = j0 + i / (D / 4u);
    let c = i % (D / 4u) * 4u;
    let quad = v[(base + min(key, p.keys - 1u) * p.v_strides.w + min(c, p.columns - 4u)) / 4u];
    return select(vec4<f16>(), quad, key < p.keys && c < p.columns);
}

// Where quad i of 32 rows is staged.
fn slot(i: u32) -> u32 { return i / (D / 4u) * (PITCH / 4u) + i % (D / 4u); }

// Scores with keys j .. j + 4 of a row that sees the keys before `sight`; plain where all rows see them as they are.
fn seen(products: vec4<f32>, plain: bool, mask_at: u32, sight: u32, j: u32) -> vec4<f32> {
    let s = products * p.scale;
    if plain { return s; }
    let here = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(sight);
    return select(vec4<f32>(p.hidden), masked_four(capped(s), mask_at, j), here);
}

// Whether a row's mask hides the 16 keys from j on, and whether it leaves them as they are.
fn effect(mask_at: u32, j: u32) -> vec2<bool> {
    let a = masked_four(vec4<f32>(), mask_at, j);
    let b = masked_four(vec4<f32>(), mask_at, j + 4u);
    let c = masked_four(vec4<f32>(), mask_at, j + 8u);
    let e = masked_four(vec4<f32>(), mask_at, j + 12u);
    let none = vec4<f32>();
    let low = vec4<f32>(p.hidden);
    return vec2<bool>(
        all(a == low) && all(b == low) && all(c == low) && all(e == low),
        all(a == none) && all(b == none) && all(c == none) && all(e == none),
    );
}

fn note(lane: u32, t: u32, effect: vec2<bool>) {
    let hides = subgroupAll(effect.x);
    let keeps = subgroupAll(effect.y);
    if lane == 0u {
        if !hides { atomicOr(&live[t / 32u], 1u << t % 32u); }
        if !keeps { atomicOr(&changed[t / 32u], 1u << t % 32u); }
    }
}

// From j on, the first keys of a tile of which the mask leaves something to see.
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

// Whether scores with the keys from j on are nothing but products: no row sees less than `least` keys, nor does the mask change any.
fn is_plain(j: u32, first: u32, least: u32) -> bool {
    let t = (j - first) / KEYS;
    let kept = MASKED == 0u || (atomicLoad(&changed[t / 32u]) >> t % 32u & 1u) == 0u;
    return kept && p.cap == 1.0 && j + KEYS <= least;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let matrix = group / p.splits / p.tiles;
    if matrix >= p.batch { return; }
    let split = group % p.splits;
    let row0 = group / p.splits % p.tiles * ROWS;
    let at = vec2<u32>(matrix / p.heads, matrix % p.heads);
    let q_base = p.offsets.x + at.x * p.q_strides.x + at.y * p.q_strides.y;
    let k_base = p.offsets.y + at.x * p.k_strides.x + at.y * p.k_strides.y;
    let v_base = p.offsets.z + at.x * p.v_strides.x + at.y * p.v_strides.y;

    // The keys that some row of the tile sees, and those that all do.
    let end = min(row0 + ROWS, p.rows) - 1u;
    let one_head = row0 / p.queries == end / p.queries;
    let newest = select(p.queries - 1u, end % p.queries, one_head);
    let oldest = select(0u, row0 % p.queries, one_head);
    let some = u32(max(i32(newest) + 1 + i32(p.keys) - i32(p.queries), 0));
    let least = select(p.keys, min(u32(max(i32(oldest) + 1 + i32(p.keys) - i32(p.queries), 0)), p.keys), p.causal == 1u);
    let first = split * p.span;
    let last = min(min(first + p.span, p.keys), select(p.keys, some, p.causal == 1u));

    // The lane's row: where its mask lies, how many keys it sees.
    let row16 = subgroup * 16u;
    let row = row0 + row16 + lane / 2u;
    let inside = min(row, p.rows - 1u);
    let mask_at = p.offsets.w + at.x * p.mask_strides.x + at.y * p.mask_strides.y
        + inside / p.queries * p.mask_strides.z + inside % p.queries * p.mask_strides.w;
    let causal = u32(max(i32(inside % p.queries) + 1 + i32(p.keys) - i32(p.queries), 0));
    let sight = select(p.keys, min(causal, p.keys), p.causal == 1u);
    let half = lane % 2u * (KEYS / 2u);
    let mine = row16 * SCORES;
    let own = (row16 + lane / 2u) * SCORES + half;

    for (var i = 0u; i < 2u * HOLD; i++) {
        let here = thread + i * 128u;
        let r = min(row0 + here / (D / 4u), p.rows - 1u);
        let c = here % (D / 4u) * 4u;
        let element = q_base + r / p.queries * p.q_strides.z + r % p.queries * p.q_strides.w + c;
        var quad = q[select(0u, element / 4u, c < p.d)];
        if c >= p.d { quad = vec4<f16>(); }
        tile[slot(here)] = quad;
    }
    if MASKED != 0u {
        if thread < TILES / 32u {
            atomicStore(&live[thread], 0u);
            atomicStore(&changed[thread], 0u);
        }
        workgroupBarrier();
        // Four tiles at a time: their loads are under way together.
        for (var j0 = first; j0 < last; j0 += 4u * KEYS) {
            let t = (j0 - first) / KEYS;
            let one = effect(mask_at, j0 + half);
            let two = effect(mask_at, j0 + KEYS + half);
            let three = effect(mask_at, j0 + 2u * KEYS + half);
            let four = effect(mask_at, j0 + 3u * KEYS + half);
            note(lane, t, one);
            note(lane, t + 1u, two);
            note(lane, t + 2u, three);
            note(lane, t + 3u, four);
        }
    }
    workgroupBarrier();
    take_rows(row16);

    let start = next_live(first, first, last);
    workgroupBarrier();

    var high = p.lowest;
    fetch_keys(thread, k_base, start);
    for (var j0 = start; j0 < last;) {
        stage_keys(thread);
        workgroupBarrier();
        let next = next_live(j0 + KEYS, first, last);
        // The last round fetches what the second pass begins with.
        fetch_keys(thread, k_base, select(start, next, next < last));
        multiply(mine);
        workgroupBarrier();
        let plain = is_plain(j0, first, least);
        for (var t = 0u; t < KEYS / 8u; t++) {
            let s = seen(score[own / 4u + t], plain, mask_at, sight, j0 + half + t * 4u);
            high = max(high, max(max(s.x, s.y), max(s.z, s.w)));
        }
        j0 = next;
    }
    high = max(high, subgroupShuffleXor(high, 1u));

    var total = 0.0;
    fetch_values(thread, v_base, start);
    for (var j0 = start; j0 < last;) {
        stage_keys(thread);
        stage_values(thread);
        workgroupBarrier();
        let next = next_live(j0 + KEYS, first, last);
        fetch_keys(thread, k_base, next);
        fetch_values(thread, v_base, next);
        multiply(mine);
        workgroupBarrier();
        let plain = is_plain(j0, first, least);
        for (var t = 0u; t < KEYS / 8u; t++) {
            let s = seen(score[own / 4u + t], plain, mask_at, sight, j0 + half + t * 4u);
            let w = exp(s - vec4<f32>(high));
            total += (w.x + w.y) + (w.z + w.w);
            weight[((row16 + lane / 2u) * WEIGHTS + half) / 4u + t] = vec4<f16>(w);
        }
        workgroupBarrier();
        add_up(row16);
        workgroupBarrier();
        j0 = next;
    }
    total += subgroupShuffleXor(total, 1u);

    let to = place(matrix * p.rows + row, split);
    for (var c0 = 0u; c0 < D; c0 += 32u) {
        show(c0, mine);
        workgroupBarrier();
        for (var t = 0u; t < KEYS / 2u; t += 4u) {
            let c = c0 + half + t;
            if row < p.rows && c < p.columns { y_quad_put(to + c / 4u, finish(score[(own + t) / 4u], total)); }
        }
        workgroupBarrier();
    }
    if PARTS == 1u && half == 0u && row < p.rows { y_quad_put(to + p.columns / 4u, vec4<f32>(high, total, 0.0, 0.0)); }
}
