// How gemv_dot rounds units first .. first + count of each row, through workgroup memory: eight threads share a unit.

// slots: what gemv_dot.wgsl and its linker bring.
const ROWS = 1u;
const CHUNK = 192u;
const WORKGROUP = 256u;
var<workgroup> worth: array<f32, ROWS * CHUNK>;
var<workgroup> sums: array<atomic<i32>, 2u * ROWS * CHUNK>;
fn a_four(row: u32, k: u32) -> vec4<f32> { return vec4<f32>(); }
fn slot(r: u32, u: u32) -> u32 { return r * CHUNK + u; }
fn put(r: u32, u: u32, i: u32, q: vec4<i32>) {}
fn steps_of(v: vec4<f32>, bits: u32) -> vec4<i32> { return vec4<i32>(v); }
fn worth_of(bits: u32) -> f32 { return f32(bits); }
fn magnitude(v: vec4<f32>) -> u32 { return bitcast<u32>(v.x); }
// end slots

var<workgroup> greatest: array<atomic<u32>, ROWS * CHUNK>;

fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    for (var i = thread; i < ROWS * CHUNK; i += WORKGROUP) {
        atomicStore(&greatest[i], 0u);
        atomicStore(&sums[2u * i], 0i);
        atomicStore(&sums[2u * i + 1u], 0i);
    }
    workgroupBarrier();
    for (var i = thread; i < 8u * ROWS * count; i += WORKGROUP) {
        let r = i / (8u * count);
        let u = i / 8u % count;
        atomicMax(&greatest[r * CHUNK + u], magnitude(a_four(rows[r], (first + u) * 32u + i % 8u * 4u)));
    }
    workgroupBarrier();
    for (var i = thread; i < 8u * ROWS * count; i += WORKGROUP) {
        let r = i / (8u * count);
        let u = i / 8u % count;
        let bits = atomicLoad(&greatest[r * CHUNK + u]);
        let q = steps_of(a_four(rows[r], (first + u) * 32u + i % 8u * 4u), bits);
        put(r, u, i % 8u, q);
        atomicAdd(&sums[2u * slot(r, u) + i % 8u / 4u], q.x + q.y + q.z + q.w);
        if i % 8u == 0u { worth[slot(r, u)] = worth_of(bits); }
    }
}
