// y[n] = s sum over k of x[k] alpha[k] b[k, n], where s = 1 / sqrt(mean_k x[k]^2 + eps): rms_norm and GEMV of one row; projections z
// and w likewise. A thread group of SPAN threads owns two adjacent columns of y; a thread accumulates every SPAN-th part of k.

// slots: as it stands this file is the f32 case of one matmul, with no subgroups.
alias A = vec4<f32>;
alias B = vec4<f32>;
alias ALPHA = vec4<f32>;
alias Y = f32;
@group(0) @binding(4) var<storage, read> alpha: array<ALPHA>;
const TREE = true;
fn meet() { workgroupBarrier(); }
struct Ids { thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn sum_one(v: f32) -> f32 { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return min(SPAN, 8u); }
fn place(group: u32) -> Place { return Place(0u, group, p.n, p.b_offset, p.b_n); }
fn add_up_of(which: u32, first: u32, row: u32, cols: vec2<u32>) -> Sums {
    var sums = Sums(vec4<f32>(), 0.0);
    for (var q = first; q < p.k / 4u; q += SPAN) {
        let x = a[row / 4u + q];
        let v = x * alpha[p.a_batch.x / 4u + q];
        sums.products += vec4<f32>(dot(v, b[cols.x / 4u + q]), dot(v, b[cols.y / 4u + q]), 0.0, 0.0);
        sums.squares += dot(x, x);
    }
    return sums;
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
struct Params { n: u32, k: u32, a_offset: u32, b_offset: u32, b_n: u32, a_batch: vec4<u32> }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;
override SPAN: u32 = 64u; // threads of a thread group, a power of two: the workgroup with subgroups, 1 in variant `alone`

// The part of the results that a workgroup owns: columns of matmul `which`, as its `group`-th workgroup. The matrix has n rows from
// offset `start` on.
struct Place { which: u32, group: u32, n: u32, start: u32, stride: u32 }
// Accumulators of two columns of b, followed by those of c for a pair; and of the squares of x.
struct Sums { products: vec4<f32>, squares: f32 }

var<workgroup> part: array<vec4<f32>, WORKGROUP>;
var<workgroup> square: array<f32, WORKGROUP>;

fn run(ids: Ids, group: u32) {
    let at = place(group);
    let thread_groups = WORKGROUP / SPAN;
    let n_first = at.group * thread_groups * 2u;
    if n_first >= at.n { return; }

    // Columns past the edge repeat the last one; their results are not stored.
    let n0 = n_first + ids.thread / SPAN * 2u;
    let cols = at.start + min(vec2<u32>(n0, n0 + 1u), vec2<u32>(at.n - 1u)) * at.stride;
    hold(n_first);
    let sums = add_up_of(at.which, ids.thread % SPAN, p.a_offset, cols);
    let products = sum_of(sums.products);
    let squares = sum_one(sums.squares);
    if leads(ids) {
        part[part_at(ids)] = products;
        square[part_at(ids)] = squares;
    }
    meet();
    if TREE {
        for (var half = SPAN / 2u; half > 4u; half /= 2u) {
            if ids.thread % SPAN < half {
                part[ids.thread] += part[ids.thread + half];
                square[ids.thread] += square[ids.thread + half];
            }
            meet();
        }
    }
    for (var thread_group = ids.thread; thread_group < thread_groups; thread_group += WORKGROUP) {
        let n = n_first + thread_group * 2u;
        if n < at.n {
            let first = thread_group * SPAN;
            var sum = part[first];
            var total = square[first];
            for (var i = 1u; i < parts(ids); i++) {
                sum += part[first + i];
                total += square[first + i];
            }
            let scale = 1.0 / sqrt(total * bitcast<f32>(p.a_batch.z) + bitcast<f32>(p.a_batch.y));
            put_of(at.which, n, min(2u, at.n - n), sum * scale);
        }
    }
}
