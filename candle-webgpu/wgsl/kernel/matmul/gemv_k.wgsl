// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] for few rows m and b contiguous along k.
// A thread group of SPAN threads owns ROWS rows of COLS adjacent columns of y; a thread accumulates every SPAN-th part of k.

// slots: as it stands this file is the f32 case with both operands aligned and no subgroups.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias Y = f32;
const ROWS = 1u;
const COLS = 2u;
const TREE = true;
fn meet() { workgroupBarrier(); }
struct Ids { thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(SPAN, 8u); }
fn b_start(batch: u32) -> u32 { return 0u; }
fn add_up(first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var acc: array<vec4<f32>, ROWS>; // accumulators: a lane per column
    for (var q = first; q < p.k / 4u; q += SPAN) {
        for (var c = 0u; c < COLS; c++) { acc[0][c] += dot(a[rows[0] / 4u + q], b[cols[c] / 4u + q]); }
    }
    return acc;
}
fn y_put(at: u32, count: u32, v: vec4<f32>) {
    for (var i = 0u; i < count; i++) { y[at + i] = v[i]; }
}
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    run(Ids(thread), id.y * count.x + id.x);
}
struct Params { m: u32, n: u32, k: u32, batch: u32, groups: u32, a_offset: u32, b_offset: u32, a_m: u32, b_n: u32, blocks: u32 }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;
override SPAN: u32 = 64u; // threads of a thread group, a power of two: the workgroup with subgroups, 1 in variant `alone`

var<workgroup> part: array<vec4<f32>, ROWS * WORKGROUP>;

fn run(ids: Ids, group: u32) {
    var batch = 0u;
    var m0 = 0u;
    var mine = group;
    // Divisions take long: as long as the first loads.
    if group >= p.groups {
        let block = group / p.groups;
        batch = block / p.blocks;
        if batch >= p.batch { return; }
        m0 = block % p.blocks * ROWS;
        mine = group - block * p.groups;
    }
    let base = bases(batch) + vec2<u32>(0u, b_start(batch));

    // Rows and columns past the edge repeat the last one; their results are not stored.
    let thread_groups = WORKGROUP / SPAN;
    let n_first = mine * thread_groups * COLS;
    let n0 = n_first + ids.thread / SPAN * COLS;
    var cols: array<u32, COLS>;
    for (var c = 0u; c < COLS; c++) { cols[c] = base.y + min(n0 + c, p.n - 1u) * p.b_n; }
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = base.x + min(m0 + r, p.m - 1u) * p.a_m; }

    let acc = add_up(ids.thread % SPAN, rows, cols);
    for (var r = 0u; r < ROWS; r++) {
        let sum = sum_of(acc[r]);
        if leads(ids) { part[r * WORKGROUP + part_at(ids)] = sum; }
    }
    meet();
    if TREE {
        for (var half = SPAN / 2u; half > 4u; half /= 2u) {
            if ids.thread % SPAN < half {
                for (var r = 0u; r < ROWS; r++) {
                    part[r * WORKGROUP + ids.thread] += part[r * WORKGROUP + ids.thread + half];
                }
            }
            meet();
        }
    }
    for (var task = ids.thread; task < thread_groups * ROWS; task += WORKGROUP) {
        let thread_group = task % thread_groups;
        let m = m0 + task / thread_groups;
        let n = n_first + thread_group * COLS;
        if m < p.m && n < p.n {
            let first = task / thread_groups * WORKGROUP + thread_group * SPAN;
            var sum = part[first];
            for (var i = 1u; i < parts(ids); i++) { sum += part[first + i]; }
            y_put((batch * p.m + m) * p.n + n, min(COLS, p.n - n), sum);
        }
    }
}
