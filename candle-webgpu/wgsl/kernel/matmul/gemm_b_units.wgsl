// Dequantizes b of gemm into workgroup memory: a thread owns half a unit, 16 elements along k of one column.

// slots: stand-ins for what gemm.wgsl and its linker provide.
const BK = 32u;
const BN = 64u;
const PAD = 4u;
struct Params { n: u32, k: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<workgroup> b_tile: array<f32, BK * (BN + PAD)>;
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_unit(u: u32) -> Unit { return Unit(vec4<u32>(u), vec4<u32>(), vec2<f32>(), vec2<f32>()); }
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
// end slots

var<private> b_hold: vec4<u32>;
var<private> b_line: vec2<f32>; // scale and shift
var<private> b_base: u32;

fn b_start(thread: u32, n0: u32, base: u32) { b_base = base + (n0 + thread % BN) * p.b_n; }

fn b_fetch(thread: u32, n0: u32, k0: u32) {
    b_line = vec2<f32>();
    if thread < 2u * BN && n0 + thread % BN < p.n {
        let unit = w_unit((b_base + k0) / 32u);
        if thread < BN {
            b_hold = unit.low;
            b_line = vec2<f32>(unit.scale.x, unit.shift.x);
        } else {
            b_hold = unit.high;
            b_line = vec2<f32>(unit.scale.y, unit.shift.y);
        }
    }
}

fn b_stage(thread: u32) {
    if thread >= 2u * BN { return; }
    let first = thread / BN * 16u * (BN + PAD) + thread % BN;
    for (var i = 0u; i < 4u; i++) {
        let v = b_line.x * unit_four(b_hold[i]) + b_line.y;
        for (var j = 0u; j < 4u; j++) { b_tile[first + (4u * i + j) * (BN + PAD)] = v[j]; }
    }
}
