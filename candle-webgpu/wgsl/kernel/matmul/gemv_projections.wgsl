// y[m, n] = sum over k of a[m, k] b[k, n], and z = a c, w = a d likewise, for few rows m and matrices contiguous along k.
// A thread group of SPAN threads owns ROWS rows of COLS adjacent columns of one result; a thread accumulates every SPAN-th part of k.

// slots: as it stands this file is the f32 case of two matrices, with no subgroups.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias C = vec4<f32>;
alias Y = f32;
alias Z = f32;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
@group(0) @binding(4) var<storage, read> c: array<C>;
@group(0) @binding(5) var<storage, read_write> z: array<Z>;
const ROWS = 1u;
const COLS = 2u;
const TREE = true;
fn meet() { workgroupBarrier(); }
struct Ids { thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(SPAN, 8u); }
fn add_up_of(which: u32, first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var acc: array<vec4<f32>, ROWS>; // accumulators: a lane per column
    for (var q = first; q < p.k / 4u; q += SPAN) {
        for (var i = 0u; i < COLS; i++) {
            let at = cols[i] / 4u + q;
            if which == 0u { acc[0][i] += dot(a[rows[0] / 4u + q], b[at]); } else { acc[0][i] += dot(a[rows[0] / 4u + q], c[at]); }
        }
    }
    return acc;
}
fn put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {
    for (var i = 0u; i < count; i++) {
        if which == 0u { y[at + i] = v[i]; } else { z[at + i] = v[i]; }
    }
}
@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    run(Ids(thread), id.y * count.x + id.x);
}
struct Params { m: u32, k: u32, a_offset: u32, a_m: u32, starts: vec4<u32>, products: array<vec4<u32>, 3> }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
override WORKGROUP: u32 = 64u;
override SPAN: u32 = 64u; // threads of a thread group, a power of two: the workgroup with subgroups, 1 in variant `alone`

var<workgroup> part: array<vec4<f32>, ROWS * WORKGROUP>;

fn run(ids: Ids, group: u32) {
    if group >= p.starts.w { return; }
    let which = u32(group >= p.starts.y) + u32(group >= p.starts.z);
    let product = p.products[which];
    var mine = group - p.starts[which];
    var m0 = 0u;
    if mine >= product.x {
        m0 = mine / product.x * ROWS;
        mine = mine % product.x;
    }

    // Rows and columns past the edge repeat the last one; their results are not stored.
    let thread_groups = WORKGROUP / SPAN;
    let n_first = mine * thread_groups * COLS;
    let n0 = n_first + ids.thread / SPAN * COLS;
    var cols: array<u32, COLS>;
    for (var i = 0u; i < COLS; i++) { cols[i] = product.z + min(n0 + i, product.y - 1u) * product.w; }
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = p.a_offset + min(m0 + r, p.m - 1u) * p.a_m; }

    let acc = add_up_of(which, ids.thread % SPAN, rows, cols);
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
        if m < p.m && n < product.y {
            let first = task / thread_groups * WORKGROUP + thread_group * SPAN;
            var sum = part[first];
            for (var i = 1u; i < parts(ids); i++) { sum += part[first + i]; }
            put_of(which, m * product.y + n, min(COLS, product.y - n), sum);
        }
    }
}
