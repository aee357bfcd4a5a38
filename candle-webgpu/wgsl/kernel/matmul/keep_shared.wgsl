// Rounds units first .. first + count of each row of gemv_dot, with reductions in workgroup memory. A thread owns half a unit.

// slots: stand-ins for what gemv_dot.wgsl and its linker provide.
const ROWS = 1u;
const CHUNK = 192u;
const WORKGROUP = 256u;
const W_BLOCK = 4u;
var<workgroup> act_scale: array<f32, ROWS * CHUNK>;
fn a_four(row: u32, k: u32, first: bool) -> vec4<f32> { return vec4<f32>(); }
fn slot(r: u32, u: u32) -> u32 { return r * CHUNK + u; }
fn put(r: u32, u: u32, half: u32, q: array<vec4<i32>, 4>) {}
fn steps_of(v: vec4<f32>, bits: u32) -> vec4<i32> { return vec4<i32>(v); }
fn scale_of(bits: u32) -> f32 { return f32(bits); }
fn magnitude(v: vec4<f32>) -> u32 { return bitcast<u32>(v.x); }
// end slots

var<workgroup> greatest: array<atomic<u32>, ROWS * CHUNK>; // largest magnitude of a block

fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    for (var i = thread; i < ROWS * CHUNK; i += WORKGROUP) { atomicStore(&greatest[i], 0u); }
    workgroupBarrier();
    for (var i = thread; i < 2u * ROWS * count; i += WORKGROUP) {
        let r = i / (2u * count);
        let u = i / 2u % count;
        let v = half_unit(rows[r], (first + u) * 32u + i % 2u * 16u, true);
        let most = max(max(magnitude(v[0]), magnitude(v[1])), max(magnitude(v[2]), magnitude(v[3])));
        atomicMax(&greatest[r * CHUNK + u / W_BLOCK], most);
    }
    workgroupBarrier();
    for (var i = thread; i < 2u * ROWS * count; i += WORKGROUP) {
        let r = i / (2u * count);
        let u = i / 2u % count;
        let v = half_unit(rows[r], (first + u) * 32u + i % 2u * 16u, false);
        let bits = atomicLoad(&greatest[r * CHUNK + u / W_BLOCK]);
        put(r, u, i % 2u, array<vec4<i32>, 4>(
            steps_of(v[0], bits), steps_of(v[1], bits), steps_of(v[2], bits), steps_of(v[3], bits),
        ));
        if i % 2u == 0u { act_scale[slot(r, u)] = scale_of(bits); }
    }
}

fn half_unit(row: u32, k: u32, first: bool) -> array<vec4<f32>, 4> {
    return array<vec4<f32>, 4>(a_four(row, k, first), a_four(row, k + 4u, first), a_four(row, k + 8u, first), a_four(row, k + 12u, first));
}
