// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] for few rows m and b contiguous along n, or with any strides.
// A workgroup owns ROWS rows and QUADS quads of columns of y; a thread accumulates every (WORKGROUP / QUADS)-th k of one quad.

// slots: as it stands this file is the f32 case with b and y of whole quads.
alias A = f32;
alias B = vec4<f32>;
alias Y = vec4<f32>;
const ROWS = 1u;
fn a_get(i: u32) -> f32 { return a[i]; }
fn b_four(row: u32, n: u32) -> vec4<f32> { return b[(row + n) / 4u]; }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
struct Params { m: u32, n: u32, k: u32, batch: u32, groups: u32, a_offset: u32, b_offset: u32, a_m: u32, a_k: u32, b_k: u32 }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override QUADS: u32 = 8u; // a power of two

var<workgroup> part: array<vec4<f32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let batch = group / p.groups;
    if batch >= p.batch { return; }
    let base = bases(batch);

    // A quad past the edge repeats the first one; its result is not stored, nor are those of rows past the last.
    let n = (group % p.groups * QUADS + thread % QUADS) * 4u;
    let n_read = select(0u, n, n < p.n);
    let slices = WORKGROUP / QUADS;
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = base.x + min(r, p.m - 1u) * p.a_m; }
    var acc: array<vec4<f32>, ROWS>;
    for (var k = thread / QUADS; k < p.k; k += slices) {
        let right = b_four(base.y + k * p.b_k, n_read);
        for (var r = 0u; r < ROWS; r++) { acc[r] += a_get(rows[r] + k * p.a_k) * right; }
    }

    for (var r = 0u; r < ROWS; r++) {
        part[thread] = acc[r];
        workgroupBarrier();
        for (var half = slices / 2u; half > 0u; half /= 2u) {
            if thread < half * QUADS { part[thread] += part[thread + half * QUADS]; }
            workgroupBarrier();
        }
        if thread < QUADS && r < p.m && n < p.n {
            y_put((batch * p.m + r) * p.n + n, min(4u, p.n - n), part[thread]);
        }
        workgroupBarrier();
    }
}
