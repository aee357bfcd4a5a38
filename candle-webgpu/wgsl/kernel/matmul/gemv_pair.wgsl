// The inner loop of gemv_k for a pair of dense matrices b and c: accumulators of COLS columns of b, followed by those of the same
// columns of c.

// slots: stand-ins for what gemv_k.wgsl and its linker provide.
const ROWS = 1u;
const COLS = 2u;
const SPAN = 64u;
struct Eight { low: vec4<f32>, high: vec4<f32> }
struct Epilogue { zero: u32, step: u32 }
struct Params { epilogue: Epilogue, @align(16) k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn a_eight(row: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn b_eight(col: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn c_eight(col: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn b_ahead(first: u32, row: u32) -> u32 { return 0u; }
fn c_ahead(first: u32, row: u32) -> u32 { return 0u; }
fn early_zero(bits: u32, k: u32) -> f32 { return 0.0; }
// end slots

fn add_up(first: u32, rows: array<u32, ROWS>, cols: array<u32, COLS>) -> array<vec4<f32>, ROWS> {
    var of_b: array<vec2<f32>, ROWS>;
    var of_c: array<vec2<f32>, ROWS>;
    let bits = b_ahead(first, cols[0]) ^ c_ahead(first, cols[0] + p.epilogue.step);
    for (var k = first * 8u; k < p.k; k += SPAN * 8u) {
        var b_right: array<Eight, COLS>;
        var c_right: array<Eight, COLS>;
        for (var c = 0u; c < COLS; c++) { b_right[c] = b_eight(cols[c], k); }
        for (var c = 0u; c < COLS; c++) { c_right[c] = c_eight(cols[c] + p.epilogue.step, k); }
        for (var r = 0u; r < ROWS; r++) {
            let left = a_eight(rows[r], k);
            for (var c = 0u; c < COLS; c++) {
                of_b[r][c] += dot(left.low, b_right[c].low) + dot(left.high, b_right[c].high);
            }
            for (var c = 0u; c < COLS; c++) {
                of_c[r][c] += dot(left.low, c_right[c].low) + dot(left.high, c_right[c].high);
            }
        }
        of_b[0].x += early_zero(bits, k);
    }
    var acc: array<vec4<f32>, ROWS>;
    for (var r = 0u; r < ROWS; r++) { acc[r] = vec4<f32>(of_b[r], of_c[r]); }
    return acc;
}
