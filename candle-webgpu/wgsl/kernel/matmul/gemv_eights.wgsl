// The inner loop of gemv_k for a dense b: a thread accumulates every SPAN-th group of eight elements along k.

// slots: stand-ins for what gemv_k.wgsl and its linker provide.
const ROWS = 1u;
const COLS = 2u;
const SPAN = 64u;
struct Eight { low: vec4<f32>, high: vec4<f32> }
struct Params { k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn a_eight(row: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn b_eight(col: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn b_early(first: u32, row: u32) -> u32 { return 0u; }
fn early_zero(bits: u32, k: u32) -> f32 { return 0.0; }
// end slots

fn add_up(first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var acc: array<vec4<f32>, ROWS>;
    let bits = b_early(first, cols[0]);
    for (var k = first * 8u; k < p.k; k += SPAN * 8u) {
        var right: array<Eight, COLS>;
        for (var c = 0u; c < COLS; c++) { right[c] = b_eight(cols[c], k); }
        for (var r = 0u; r < ROWS; r++) {
            let left = a_eight(rows[r], k);
            for (var c = 0u; c < COLS; c++) {
                acc[r][c] += dot(left.low, right[c].low) + dot(left.high, right[c].high);
            }
        }
        acc[0].x += early_zero(bits, k);
    }
    return acc;
}
