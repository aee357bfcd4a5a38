// Results of gemm_coop, and their stores to contiguous rows of y.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
fn b_scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> { return v; }
fn y_put(at: u32, count: u32, v: vec4<f32>) {}
// end slots

alias Results = vec4<f32>;
fn results(m: u32, n: u32, at: u32) -> Results { return b_scaled(y_quad(at), m, n); }
fn store(row: u32, n: u32, v: Results) { y_put(row * p.n + n, min(4u, p.n - n), v); }
