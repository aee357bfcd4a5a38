// Octets of f32 for gemm_coop_b_lines.wgsl.

// slots: stand-ins for what gemm_coop.wgsl provides.
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
// end slots

struct Wide { low: vec4<u32>, high: vec4<u32> }
fn wide_at(at: u32) -> Wide { return Wide(b[2u * at], b[2u * at + 1u]); }
fn wide_quad(of8: Wide, high: bool) -> vec4<f32> { return bitcast<vec4<f32>>(select(of8.low, of8.high, high)); }
