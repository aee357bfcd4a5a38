// How gemv_dot rounds units first .. first + count of each row, by subgroup operations: eight neighbours share a unit.

// slots: what gemv_dot.wgsl and its linker bring.
const ROWS = 1u;
const CHUNK = 192u;
const WORKGROUP = 256u;
const HOLD = 2u; // quads of a thread that are under way at a time
var<workgroup> worth: array<f32, ROWS * CHUNK>;
var<workgroup> sums: array<atomic<i32>, 2u * ROWS * CHUNK>;
fn a_four(row: u32, k: u32) -> vec4<f32> { return vec4<f32>(); }
fn slot(r: u32, u: u32) -> u32 { return r * CHUNK + u; }
fn put(r: u32, u: u32, i: u32, q: vec4<i32>) {}
fn steps_of(v: vec4<f32>, bits: u32) -> vec4<i32> { return vec4<i32>(v); }
fn worth_of(bits: u32) -> f32 { return f32(bits); }
fn magnitude(v: vec4<f32>) -> u32 { return bitcast<u32>(v.x); }
// end slots

fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    let all = 8u * ROWS * count;
    // Every thread takes as many turns, so that neighbours meet in the shuffles.
    for (var turn = 0u; turn < all; turn += HOLD * WORKGROUP) {
        var held: array<vec4<f32>, HOLD>;
        for (var j = 0u; j < HOLD; j++) {
            let i = min(turn + j * WORKGROUP + thread, all - 1u);
            held[j] = a_four(rows[i / (8u * count)], (first + i / 8u % count) * 32u + i % 8u * 4u);
        }
        for (var j = 0u; j < HOLD; j++) {
            var bits = magnitude(held[j]);
            bits = max(bits, subgroupShuffleXor(bits, 1u));
            bits = max(bits, subgroupShuffleXor(bits, 2u));
            bits = max(bits, subgroupShuffleXor(bits, 4u));
            let q = steps_of(held[j], bits);
            var sum = q.x + q.y + q.z + q.w;
            sum += subgroupShuffleXor(sum, 1u);
            sum += subgroupShuffleXor(sum, 2u);
            let i = turn + j * WORKGROUP + thread;
            if i < all {
                let r = i / (8u * count);
                let u = i / 8u % count;
                put(r, u, i % 8u, q);
                if i % 4u == 0u { atomicStore(&sums[2u * slot(r, u) + i % 8u / 4u], sum); }
                if i % 8u == 0u { worth[slot(r, u)] = worth_of(bits); }
            }
        }
    }
}
