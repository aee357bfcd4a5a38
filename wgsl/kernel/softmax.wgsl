// y[r, c] = exp(x[r, c] - max_c x[r, c]) / sum_c exp(x[r, c] - max_c x[r, c]). A workgroup owns ROWS rows of n elements,
// a thread quads of a row; a quad that two rows share belongs to both, lane by lane.

// slots: as it stands this file is the f32 case with rows of whole quads.
alias X = vec4<f32>;
alias Y = vec4<f32>;
const WHOLE = true;
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return x[p.x_offset / 4u + q]; }
fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params { rows: u32, n: u32, x_offset: u32, pad: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two

var<workgroup> part: array<f32, WORKGROUP>;

// Which lanes of quad q lie in first..end.
fn inside(q: u32, first: u32, end: u32) -> vec4<bool> {
    if WHOLE { return vec4<bool>(true); }
    let at = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return (at >= vec4<u32>(first)) & (at < vec4<u32>(end));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group * ROWS >= p.rows { return; }
    let team = WORKGROUP / ROWS;
    let lane = thread % team;
    let row = group * ROWS + thread / team;
    // A team past the last row has nothing to do but the barriers.
    let live = row < p.rows;
    let first = select(0u, row * p.n, live);
    let end = select(0u, row * p.n + p.n, live);
    let from_quad = first / 4u + lane;
    let end_quad = (end + 3u) / 4u;

    // Every lane starts from an element of the row, so a row of -inf keeps its maximum.
    var top = vec4<f32>(-3.4028234e38);
    if from_quad < end_quad {
        let v = x_four(from_quad, first, end);
        let use_it = inside(from_quad, first, end);
        let some = select(select(select(v.w, v.z, use_it.z), v.y, use_it.y), v.x, use_it.x);
        top = select(vec4<f32>(some), v, use_it);
        for (var q = from_quad + team; q < end_quad; q += team) {
            let v = x_four(q, first, end);
            top = select(top, max(top, v), inside(q, first, end));
        }
    }
    part[thread] = max(max(top.x, top.y), max(top.z, top.w));
    workgroupBarrier();
    // Lanes without a quad must not join: their start is no element of the row.
    let busy = min(team, end_quad - first / 4u);
    for (var half = team / 2u; half > 0u; half /= 2u) {
        if lane < half && lane + half < busy { part[thread] = max(part[thread], part[thread + half]); }
        workgroupBarrier();
    }
    let highest = part[thread - lane];
    workgroupBarrier();

    var sum = vec4<f32>();
    for (var q = from_quad; q < end_quad; q += team) {
        let v = exp(x_four(q, first, end) - vec4<f32>(highest));
        sum += select(vec4<f32>(), v, inside(q, first, end));
    }
    part[thread] = (sum.x + sum.y) + (sum.z + sum.w);
    workgroupBarrier();
    for (var half = team / 2u; half > 0u; half /= 2u) {
        if lane < half { part[thread] += part[thread + half]; }
        workgroupBarrier();
    }
    let total = part[thread - lane];
    for (var q = from_quad; q < end_quad; q += team) {
        y_four(q, first, end, exp(x_four(q, first, end) - vec4<f32>(highest)) / total);
    }
}
