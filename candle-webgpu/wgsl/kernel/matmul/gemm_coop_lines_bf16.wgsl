// Octets of bf16 for gemm_coop_b_lines.wgsl.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
fn bf16_unpack(quad: vec2<u32>) -> vec4<f32> { return vec4<f32>(quad.xyxy); }
// end slots

alias Wide = vec4<u32>;
fn wide_at(at: u32) -> Wide { return b[at]; }
fn wide_quad(of8: Wide, high: bool) -> vec4<f32> { return bf16_unpack(select(of8.xy, of8.zw, high)); }
