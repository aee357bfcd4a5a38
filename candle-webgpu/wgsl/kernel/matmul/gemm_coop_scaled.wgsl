// Multiplies results of gemm_coop by the scales of their lines: those of the rows of a come first, then those of the columns of b.

// slots: stand-ins for what gemm_coop.wgsl provides.
struct Params { m: u32, n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn y_put(at: u32, count: u32, v: vec4<f32>) {}
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
// end slots

@group(0) @binding(4) var<storage, read> line_scales: array<f32>;
fn store(row: u32, m: u32, n: u32, at: u32) {
    let by = p.m + n;
    let scales = vec4<f32>(line_scales[by], line_scales[by + 1u], line_scales[by + 2u], line_scales[by + 3u]);
    y_put(row * p.n + n, min(4u, p.n - n), y_quad(at) * line_scales[m] * scales);
}
