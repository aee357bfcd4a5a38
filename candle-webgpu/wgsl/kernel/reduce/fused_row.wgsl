// For rows of m elements: t = a reduction of before(x) along the row, and y = steps(x, t) for each element. A workgroup owns ROWS rows; a
// thread group shares a row and combines in the order of reduce_row, so that t has the same bits.

// slots: as it stands this file is the f32 case of y = a / (the sum of a * a).
alias A = vec4<f32>;
alias Y = vec4<f32>;
alias XV = f32;
alias YV = f32;
alias Acc = f32;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
struct In { a: vec4<f32> }
fn load(q: u32) -> In { return In(a[p.a_offset / 4u + q]); }
fn before(x: In) -> vec4<f32> { return kept(x.a * x.a); }
fn steps(x: In, total: vec4<f32>) -> vec4<f32> { return kept(x.a / total); }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return a + b; }
fn acc_next(a: Acc, b: Acc) -> Acc { return acc_join(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a; }
// end slots

struct View { dims: vec4<u32>, strides: vec4<u32> }
struct Params {
    n: u32,
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    d_offset: u32,
    e_offset: u32,
    f_offset: u32,
    zero: u32,
    scalars: array<vec4<u32>, 4>, // per step that has scalars: the bits of two compute values
    views: array<View, 4>, // per operand that is not flat
    m: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
override WORKGROUP: u32 = 256u;
override ROWS: u32 = 1u; // a power of two
var<workgroup> part: array<Acc, WORKGROUP>;

// v itself. The xor with a zero that compilers do not know keeps them from fusing the operations before and after.
fn kept(v: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ vec4<u32>(p.zero)); }

fn one(q: u32) -> Acc {
    let v = before(load(q));
    return acc_next(acc_next(acc_of(v[0], 0u), acc_of(v[1], 0u)), acc_next(acc_of(v[2], 0u), acc_of(v[3], 0u)));
}

fn four(q: u32, step: u32) -> Acc {
    let a = acc_next(one(q), one(q + step));
    return acc_next(a, acc_next(one(q + 2u * step), one(q + 3u * step)));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let group = id.y * groups.x + id.x;
    let rows = p.n / p.m;
    if group * ROWS >= rows { return; }
    let thread_group = WORKGROUP / ROWS;
    let lane = thread % thread_group;
    let row = group * ROWS + thread / thread_group;
    // Thread groups past the last row only take part in the barriers.
    let end = select(0u, p.m / 4u, row < rows);
    let first = row * (p.m / 4u);
    let busy = min(end, thread_group);
    if lane < busy {
        var q = lane;
        var acc: Acc;
        if q + 3u * thread_group < end {
            acc = four(first + q, thread_group);
            q += 4u * thread_group;
            for (; q + 3u * thread_group < end; q += 4u * thread_group) { acc = acc_next(acc, four(first + q, thread_group)); }
        } else {
            acc = one(first + q);
            q += thread_group;
        }
        for (; q < end; q += thread_group) { acc = acc_next(acc, one(first + q)); }
        part[thread] = acc;
    }
    for (var half = thread_group / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if lane < half && lane + half < busy { part[thread] = acc_join(part[thread], part[thread + half]); }
    }
    workgroupBarrier();
    if lane >= busy { return; }
    let total = vec4<f32>(acc_end(part[thread - lane], true, before(load(first))[0]));
    for (var q = lane; q < end; q += thread_group) { y_quad_put(first + q, steps(load(first + q), total)); }
}
