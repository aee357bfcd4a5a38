// gemv_dot with a fused rms_norm of its one row, beside the rounding of x * alpha: the squares of x, and the factor of the accumulators.

// slots: stand-ins for what gemv_dot.wgsl and its linker provide.
const TREE = true;
const WORKGROUP = 256u;
const THREAD_GROUP = 32u;
struct Params { k: u32, a_batch: vec4<u32> }
@group(0) @binding(0) var<uniform> p: Params;
fn x_four(row: u32, k: u32) -> vec4<f32> { return vec4<f32>(); }
fn alpha_four(k: u32) -> vec4<f32> { return vec4<f32>(); }
fn one_of_thread_group(v: f32) -> f32 { return v; }
fn keep_units(thread: u32, first: u32, count: u32, rows: array<u32, 1>) {}
// end slots

var<workgroup> square: array<f32, WORKGROUP>; // one sum per thread group; without subgroups, the first is the total
var<private> squares: vec4<f32>;

// Four elements of x alpha. Their squares are added up where they are loaded first.
fn a_four(row: u32, k: u32, first: bool) -> vec4<f32> {
    let x = x_four(row, k);
    squares += select(vec4<f32>(), x * x, first);
    return x * alpha_four(k);
}

fn keep(thread: u32, first: u32, count: u32, rows: array<u32, 1>) {
    squares = vec4<f32>();
    keep_units(thread, first, count, rows);
    // The first call completes the sum of the whole row.
    if first == 0u {
        for (var k = count * 32u + thread * 4u; k < p.k; k += WORKGROUP * 4u) {
            let x = x_four(rows[0], k);
            squares += x * x;
        }
        let mine = one_of_thread_group((squares.x + squares.y) + (squares.z + squares.w));
        if TREE {
            square[thread] = mine;
            workgroupBarrier();
            for (var half = WORKGROUP / 2u; half > 0u; half /= 2u) {
                if thread < half { square[thread] += square[thread + half]; }
                workgroupBarrier();
            }
        } else if thread % THREAD_GROUP == 0u {
            square[thread / THREAD_GROUP] = mine;
        }
    }
}

// 1 / sqrt(mean x^2 + eps); valid after the barrier that follows `keep`.
fn factor() -> f32 {
    var sum = square[0];
    if !TREE {
        for (var i = 1u; i < WORKGROUP / THREAD_GROUP; i++) { sum += square[i]; }
    }
    return 1.0 / sqrt(sum * bitcast<f32>(p.a_batch.z) + bitcast<f32>(p.a_batch.y));
}
