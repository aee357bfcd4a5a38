// The inner loop of rms_norm_gemv: a thread accumulates every SPAN-th group of eight elements along k, and their squares.

// slots: stand-ins for what rms_norm_gemv.wgsl and its linker provide.
const SPAN = 64u;
struct Eight { low: vec4<f32>, high: vec4<f32> }
struct Sums { products: vec4<f32>, squares: f32 }
struct Params { a_batch: vec4<u32>, k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn a_eight(row: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn alpha_eight(row: u32, k: u32) -> Eight { return Eight(vec4<f32>(), vec4<f32>()); }
fn columns(v: Eight, cols: vec2<u32>, k: u32) -> vec4<f32> { return vec4<f32>(); }
fn early(first: u32, col: u32) -> u32 { return 0u; }
fn early_zero(bits: u32, k: u32) -> f32 { return 0.0; }
// end slots

fn add_up(first: u32, row: u32, cols: vec2<u32>) -> Sums {
    var sums = Sums();
    let bits = early(first, cols.x);
    for (var k = first * 8u; k < p.k; k += SPAN * 8u) {
        let x = a_eight(row, k);
        let by = alpha_eight(p.a_batch.x, k);
        sums.products += columns(Eight(x.low * by.low, x.high * by.high), cols, k);
        sums.squares += dot(x.low, x.low) + dot(x.high, x.high) + early_zero(bits, k);
    }
    return sums;
}
