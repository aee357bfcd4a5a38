// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] for few rows m and b contiguous along k; for projections, also z = a c and w = a d.
// A thread group of SPAN threads owns ROWS rows of COLS adjacent columns of a result; a thread accumulates every SPAN-th part of k.

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
struct Matrix { start: u32, n: u32, stride: u32 }
struct Place { which: u32, batch: u32, m0: u32, group: u32, a: u32, w: Matrix }
fn place(group: u32) -> Place {
    return Place(0u, 0u, 0u, group, p.a_offset, Matrix(p.b_offset, p.n, p.b_n));
}
fn add_up_of(which: u32, first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var acc: array<vec4<f32>, ROWS>; // accumulators: a lane per column
    for (var q = first; q < p.k / 4u; q += SPAN) {
        for (var c = 0u; c < COLS; c++) { acc[0][c] += dot(a[rows[0] / 4u + q], b[cols[c] / 4u + q]); }
    }
    return acc;
}
fn put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {
    for (var i = 0u; i < count; i++) { y[at + i] = v[i]; }
}
fn hold(n: u32) {} // loads operands of an epilogue for columns from n on
@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    run(Ids(thread), id.y * count.x + id.x);
}
struct Params { m: u32, n: u32, k: u32, batch: u32, a_offset: u32, b_offset: u32, a_m: u32, b_n: u32 }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;
override ONE_BLOCK: u32 = 0u; // in front of `part`: naga 30 panics on overrides behind an array that one sizes
override SPAN: u32 = 64u; // threads of a thread group, a power of two: the workgroup with subgroups, 1 in variant `alone`

var<workgroup> part: array<vec4<f32>, ROWS * WORKGROUP>;

fn run(ids: Ids, group: u32) {
    let own = place(group);
    if own.batch >= p.batch { return; }

    // Rows and columns past the edge repeat the last one; their results are not stored.
    let thread_groups = WORKGROUP / SPAN;
    let n_first = own.group * thread_groups * COLS;
    let n0 = n_first + ids.thread / SPAN * COLS;
    var cols: array<u32, COLS>;
    for (var c = 0u; c < COLS; c++) { cols[c] = own.w.start + min(n0 + c, own.w.n - 1u) * own.w.stride; }
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = own.a + min(own.m0 + r, p.m - 1u) * p.a_m; }

    hold(min(n_first, own.w.n - 1u));
    let acc = add_up_of(own.which, ids.thread % SPAN, rows, cols);
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
        let m = own.m0 + task / thread_groups;
        let n = n_first + thread_group * COLS;
        if m < p.m && n < own.w.n {
            let first = task / thread_groups * WORKGROUP + thread_group * SPAN;
            var sum = part[first];
            for (var i = 1u; i < parts(ids); i++) { sum += part[first + i]; }
            put_of(own.which, (own.batch * p.m + m) * own.w.n + n, min(COLS, own.w.n - n), sum);
        }
    }
}
