// y[b, m, n] = sum over k of a[b, m, k] w[n, k] for few rows m and a quantized w, in integers. A workgroup rounds its rows
// of a to 16 bits a block of 32, as two bytes that dot4I8Packed takes, and keeps them. A team of TEAM threads owns ROWS
// rows of COLS neighbouring columns of y at a time, p.rounds times; a thread adds up every TEAM-th unit of 32.

// slots: as it stands this file is the f32 case of eight-bit q with one scale and no subgroups.
alias A = vec4<f32>;
alias B = vec4<u32>;
alias Y = f32;
const ROWS = 1u;
const COLS = 2u;
const TREE = true;
const W_SHIFTED = false;
struct Ids { @builtin(local_invocation_index) thread: u32 }
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(TEAM, 8u); }
fn first_part(ids: Ids, team: u32) -> u32 { return team * TEAM; }
fn b_start(batch: u32) -> u32 { return 0u; }
fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    for (var u = thread; u < count; u += WORKGROUP) {
        for (var i = 0u; i < 8u; i++) {
            let q = vec4<i32>(a[rows[0] / 4u + 8u * (first + u) + i]);
            put(0u, u, i, q);
            atomicAdd(&sums[2u * u + i / 4u], q.x + q.y + q.z + q.w);
        }
        worth[u] = 1.0;
    }
}
fn w_unit(u: u32) -> Unit { return Unit(b[2u * u], b[2u * u + 1u], vec2<f32>(1.0), vec2<f32>()); }
fn y_put(at: u32, count: u32, v: vec4<f32>) {
    for (var i = 0u; i < count; i++) { y[at + i] = v[i]; }
}
// end slots

struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32, // workgroups of one matrix
    rows: u32, // of experts, matrices of b
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: vec4<u32>, // of the batch
    a_batch: vec4<u32>,
    b_batch: vec4<u32>,
    op: u32,
    blocks: u32, // of ROWS rows
    rounds: u32, // of a workgroup
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override TEAM: u32 = 32u; // a power of two; with subgroups a multiple of their size
override CHUNK: u32 = 192u; // units of a row that are kept
override LONE: u32 = 0u; // 1 where a team is a subgroup, which needs no memory to add up

// Halves of units, high bytes then low bytes; what a step of the 16 bits is worth; the sums of the halves, in steps.
var<workgroup> kept: array<vec4<u32>, 4u * ROWS * CHUNK>;
var<workgroup> worth: array<f32, ROWS * CHUNK>;
var<workgroup> sums: array<atomic<i32>, 2u * ROWS * CHUNK>;
var<workgroup> part: array<vec4<f32>, WORKGROUP>;

// Keeps quad i of unit u of row r.
fn put(r: u32, u: u32, i: u32, q: vec4<i32>) {
    let at = r * CHUNK + u;
    let low = ((q + vec4<i32>(128i)) & vec4<i32>(255i)) - vec4<i32>(128i);
    kept[i / 4u * ROWS * CHUNK + at][i % 4u] = pack4xI8((q - low) >> vec4<u32>(8u));
    kept[(2u + i / 4u) * ROWS * CHUNK + at][i % 4u] = pack4xI8(low);
}

fn dot_half(q: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(q.x, x.x) + dot4I8Packed(q.y, x.y) + dot4I8Packed(q.z, x.z) + dot4I8Packed(q.w, x.w);
}

// Unit u of COLS rows of b from row n on; rows past the last repeat it.
fn units_at(base: u32, n: u32, u: u32) -> array<Unit, COLS> {
    var units: array<Unit, COLS>;
    for (var c = 0u; c < COLS; c++) { units[c] = w_unit((base + min(n + c, p.n - 1u) * p.b_n) / 32u + u); }
    return units;
}

@compute @workgroup_size(WORKGROUP)
fn main(ids: Ids, @builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let group = id.y * groups.x + id.x;
    let batch = group / p.groups / p.blocks;
    if batch >= p.batch { return; }
    let m0 = group / p.groups % p.blocks * ROWS;
    var a_base = p.a_offset;
    var b_base = p.b_offset;
    var rest = batch;
    for (var d = 0u; d < 4u; d++) {
        let i = rest % p.dims[d];
        rest /= p.dims[d];
        a_base += i * p.a_batch[d];
        b_base += i * p.b_batch[d];
    }
    b_base += b_start(batch);
    // Rows and columns past the edge repeat the last one and are not written.
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = a_base + min(m0 + r, p.m - 1u) * p.a_m; }

    let teams = WORKGROUP / TEAM;
    let units = p.k / 32u;
    let lane = ids.thread % TEAM;
    for (var round = 0u; round < p.rounds; round++) {
        let n_first = (group % p.groups * p.rounds + round) * teams * COLS;
        let n0 = n_first + ids.thread / TEAM * COLS;
        var acc: array<vec4<f32>, ROWS>; // of COLS columns
        for (var first = 0u; first < units; first += CHUNK) {
            let count = min(CHUNK, units - first);
            // The first weights are under way while the activations are rounded.
            var right = units_at(b_base, n0, first + min(lane, count - 1u));
            if round == 0u || units > CHUNK {
                if first > 0u || round > 0u { workgroupBarrier(); }
                keep(ids.thread, first, count, rows);
                workgroupBarrier();
            }
            for (var u = lane; u < count; u += TEAM) {
                if u >= TEAM { right = units_at(b_base, n0, first + u); }
                for (var r = 0u; r < ROWS; r++) {
                    let at = r * CHUNK + u;
                    let high = array(kept[at], kept[ROWS * CHUNK + at]);
                    let low = array(kept[2u * ROWS * CHUNK + at], kept[3u * ROWS * CHUNK + at]);
                    let total = vec2<f32>(f32(atomicLoad(&sums[2u * at])), f32(atomicLoad(&sums[2u * at + 1u])));
                    for (var c = 0u; c < COLS; c++) {
                        let q = right[c];
                        let s = vec2<f32>(
                            f32(256i * dot_half(q.low, high[0]) + dot_half(q.low, low[0])),
                            f32(256i * dot_half(q.high, high[1]) + dot_half(q.high, low[1])),
                        );
                        var v = dot(q.scale, s);
                        if W_SHIFTED { v += dot(q.shift, total); }
                        acc[r][c] += worth[at] * v;
                    }
                }
            }
        }

        for (var r = 0u; r < ROWS; r++) {
            let sum = sum_of(acc[r]);
            if LONE == 1u {
                if leads(ids) { finish(batch, m0 + r, n0, sum); }
                continue;
            }
            workgroupBarrier();
            if leads(ids) { part[part_at(ids)] = sum; }
            workgroupBarrier();
            if TREE {
                for (var half = TEAM / 2u; half > 4u; half /= 2u) {
                    if ids.thread % TEAM < half { part[ids.thread] += part[ids.thread + half]; }
                    workgroupBarrier();
                }
            }
            if ids.thread < teams {
                let first = first_part(ids, ids.thread);
                var v = part[first];
                for (var i = 1u; i < parts(ids); i++) { v += part[first + i]; }
                finish(batch, m0 + r, n_first + ids.thread * COLS, v);
            }
        }
    }
}

fn finish(batch: u32, m: u32, n: u32, v: vec4<f32>) {
    if m < p.m && n < p.n { y_put((batch * p.m + m) * p.n + n, min(COLS, p.n - n), v); }
}
