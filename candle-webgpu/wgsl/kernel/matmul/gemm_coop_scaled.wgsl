// Multiplies results of gemm_coop by the scales of their lines: the rows of a and the columns of b.

// slots: stand-ins for what gemm_coop.wgsl provides.
struct Params { m: u32, n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn y_put(at: u32, count: u32, v: vec4<f32>) {}
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
// end slots

@group(0) @binding(4) var<storage, read> a_scales: array<f32>;
@group(0) @binding(5) var<storage, read> b_scales: array<f32>;
fn store(row: u32, m: u32, n: u32, at: u32) {
    let scales = vec4<f32>(b_scales[n], b_scales[n + 1u], b_scales[n + 2u], b_scales[n + 3u]);
    y_put(row * p.n + n, min(4u, p.n - n), y_quad(at) * a_scales[m] * scales);
}
