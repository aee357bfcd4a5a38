// Multiplies results of gemm_coop by the scales of their lines: a row of a and columns of b.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
@group(0) @binding(4) var<storage, read> a_scales: array<f32>;
@group(0) @binding(5) var<storage, read> b_scales: array<f32>;
// end slots

fn b_scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {
    return v * a_scales[m] * vec4<f32>(b_scales[n], b_scales[n + 1u], b_scales[n + 2u], b_scales[n + 3u]);
}
