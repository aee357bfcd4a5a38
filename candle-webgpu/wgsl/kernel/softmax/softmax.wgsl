// y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(x[r, c] - max_c x[r, c]). A workgroup owns ROWS rows of n elements; a
// thread owns quads of a row and keeps the first four in registers. A quad that spans two rows is processed by both, lane by lane.

// slots: as it stands this file is the f32 case with rows of whole quads.
alias X = vec4<f32>;
alias Y = vec4<f32>;
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return x[p.x_offset / 4u + q]; }
fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y[q] = v; }
const LOWEST = -3.4028234e38;
fn x_in(q: u32, first: u32, end: u32) -> vec4<f32> { return x_four(min(q, end / 4u - 1u), first, end); }
fn accumulate(running: vec2<f32>, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) -> vec2<f32> { return running; }
fn combine(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> { return max(a, b); }
// end slots

struct Params { rows: u32, n: u32, x_offset: u32, pad: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> partial: array<vec2<f32>, WORKGROUP>;

fn put(q: u32, first: u32, end: u32, v: vec4<f32>, row_stats: vec2<f32>) {
    if q * 4u < end { y_four(q, first, end, exp(v - vec4<f32>(row_stats.x)) / row_stats.y); }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group * ROWS >= p.rows { return; }
    let thread_group = WORKGROUP / ROWS;
    let lane = thread % thread_group;
    let row = group * ROWS + thread / thread_group;
    // Thread groups past the last row only take part in the barriers.
    let live = row < p.rows;
    let first = select(0u, row * p.n, live);
    let end = select(0u, row * p.n + p.n, live);
    let q = first / 4u + lane;
    let far = q + 4u * thread_group;
    let busy = (end + 3u) / 4u > q;

    var running = vec2<f32>(LOWEST, 0.0);
    var v0 = vec4<f32>();
    var v1 = v0;
    var v2 = v0;
    var v3 = v0;
    if busy {
        v0 = x_in(q, first, end);
        v1 = x_in(q + thread_group, first, end);
        v2 = x_in(q + 2u * thread_group, first, end);
        v3 = x_in(q + 3u * thread_group, first, end);
        running = accumulate(running, v0, v1, v2, v3);
        for (var i = far; i * 4u < end; i += 4u * thread_group) {
            let w0 = x_in(i, first, end);
            let w1 = x_in(i + thread_group, first, end);
            let w2 = x_in(i + 2u * thread_group, first, end);
            let w3 = x_in(i + 3u * thread_group, first, end);
            running = accumulate(running, w0, w1, w2, w3);
        }
    }
    partial[thread] = running;
    workgroupBarrier();
    for (var half = thread_group / 2u; half > 0u; half /= 2u) {
        if lane < half { partial[thread] = combine(partial[thread], partial[thread + half]); }
        workgroupBarrier();
    }
    let row_stats = partial[thread - lane];
    put(q, first, end, v0, row_stats);
    put(q + thread_group, first, end, v1, row_stats);
    put(q + 2u * thread_group, first, end, v2, row_stats);
    put(q + 3u * thread_group, first, end, v3, row_stats);
    for (var i = far; i * 4u < end; i += thread_group) { put(i, first, end, x_four(i, first, end), row_stats); }
}
