// Rounds units first .. first + count of each row of gemv_dot, with subgroup reductions. A thread owns half a unit.

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

fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    // The number of iterations is uniform, so that all threads take part in the shuffles.
    for (var turn = 0u; turn < 2u * ROWS * CHUNK; turn += WORKGROUP) {
        let i = turn + thread;
        let r = min(i / (2u * CHUNK), ROWS - 1u);
        let u = i / 2u % CHUNK;
        let k = (first + min(u, count - 1u)) * 32u + i % 2u * 16u;
        let row = rows[r];
        let live = u < count && i < 2u * ROWS * CHUNK;
        let v = array<vec4<f32>, 4>(
            a_four(row, k, live), a_four(row, k + 4u, live), a_four(row, k + 8u, live), a_four(row, k + 12u, live),
        );
        var bits = max(max(magnitude(v[0]), magnitude(v[1])), max(magnitude(v[2]), magnitude(v[3])));
        for (var far = 1u; far < 2u * W_BLOCK; far *= 2u) { bits = max(bits, subgroupShuffleXor(bits, far)); }
        if live {
            put(r, u, i % 2u, array<vec4<i32>, 4>(
                steps_of(v[0], bits), steps_of(v[1], bits), steps_of(v[2], bits), steps_of(v[3], bits),
            ));
            if i % 2u == 0u { act_scale[slot(r, u)] = scale_of(bits); }
        }
    }
}
