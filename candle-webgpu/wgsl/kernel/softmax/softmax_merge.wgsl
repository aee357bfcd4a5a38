// y[r, c] = exp(x[r, c] - m) / sum, where (m, sum) combines stats[r, k] = (max m, sum of exp(x - m)) of all chunks k of row r.
// A workgroup owns a chunk.

// slots: as it stands this file is the f32 case with rows of whole quads.
alias X = vec4<f32>;
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return x[p.x_offset / 4u + q]; }
alias Y = vec4<f32>;
fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y[q] = v; }
const LOWEST = -3.4028234e38;
fn x_in(q: u32, first: u32, end: u32) -> vec4<f32> { return x_four(min(q, end / 4u - 1u), first, end); }
fn accumulate(running: vec2<f32>, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) -> vec2<f32> { return running; }
fn combine(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> { return max(a, b); }
// end slots

struct Params { rows: u32, n: u32, x_offset: u32, chunks: u32, chunk: u32, pad0: u32, pad1: u32, pad2: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> stats: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
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
    let row = group / p.chunks;
    if row >= p.rows { return; }
    let c = group - row * p.chunks;
    let first = row * p.n + c * p.chunk;
    let end = min(first + p.chunk, row * p.n + p.n);
    var running = vec2<f32>(LOWEST, 0.0);
    for (var k = thread; k < p.chunks; k += WORKGROUP) { running = combine(running, stats[row * p.chunks + k]); }
    partial[thread] = running;
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half > 0u; half /= 2u) {
        if thread < half { partial[thread] = combine(partial[thread], partial[thread + half]); }
        workgroupBarrier();
    }
    let row_stats = partial[0];
    for (var q = first / 4u + thread; q * 4u < end; q += 4u * WORKGROUP) {
        let v0 = x_in(q, first, end);
        let v1 = x_in(q + WORKGROUP, first, end);
        let v2 = x_in(q + 2u * WORKGROUP, first, end);
        let v3 = x_in(q + 3u * WORKGROUP, first, end);
        put(q, first, end, v0, row_stats);
        put(q + WORKGROUP, first, end, v1, row_stats);
        put(q + 2u * WORKGROUP, first, end, v2, row_stats);
        put(q + 3u * WORKGROUP, first, end, v3, row_stats);
    }
}
