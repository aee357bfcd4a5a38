// Multiplies results of gemm_coop by the scales of their lines: those of the rows of a come first, then those of the columns of b.

// slots: stand-ins for what gemm_coop.wgsl provides.
struct Params { m: u32 }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

@group(0) @binding(4) var<storage, read> line_scales: array<f32>;
fn scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {
    let by = p.m + n;
    return v * line_scales[m] * vec4<f32>(line_scales[by], line_scales[by + 1u], line_scales[by + 2u], line_scales[by + 3u]);
}
