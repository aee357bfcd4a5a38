// The inner loop of gemv_k for a quantized b: a thread accumulates every SPAN-th unit of 32 elements along k. Scales and shifts
// apply to sums over 16 elements.

// slots: stand-ins for what gemv_k.wgsl and its linker provide.
const ROWS = 1u;
const COLS = 2u;
const SPAN = 64u;
struct Params { k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
const W_SHIFTED = true;
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_unit(u: u32) -> Unit { return Unit(vec4<u32>(u), vec4<u32>(), vec2<f32>(), vec2<f32>()); }
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn a_eight(row: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
// end slots

struct Eight { low: vec4<f32>, high: vec4<f32> }

fn add_up(first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var acc: array<vec4<f32>, ROWS>;
    for (var u = first; u < p.k / 32u; u += SPAN) {
        var units: array<Unit, COLS>;
        for (var c = 0u; c < COLS; c++) { units[c] = w_unit(cols[c] / 32u + u); }
        for (var h = 0u; h < 2u; h++) {
            var part = array<vec4<f32>, ROWS>();
            var sums = array<f32, ROWS>();
            for (var e = 0u; e < 2u; e++) {
                var right: array<Eight, COLS>;
                for (var c = 0u; c < COLS; c++) {
                    let half = select(units[c].low, units[c].high, h == 1u);
                    right[c] = Eight(unit_four(half[2u * e]), unit_four(half[2u * e + 1u]));
                }
                for (var r = 0u; r < ROWS; r++) {
                    let left = a_eight(rows[r], u * 32u + h * 16u + e * 8u);
                    for (var c = 0u; c < COLS; c++) {
                        part[r][c] += dot(left.low, right[c].low) + dot(left.high, right[c].high);
                    }
                    if W_SHIFTED { sums[r] += dot(left.low + left.high, vec4<f32>(1.0)); }
                }
            }
            for (var r = 0u; r < ROWS; r++) {
                for (var c = 0u; c < COLS; c++) {
                    acc[r][c] += units[c].scale[h] * part[r][c];
                    if W_SHIFTED { acc[r][c] += units[c].shift[h] * sums[r]; }
                }
            }
        }
    }
    return acc;
}
