// Octets of bf16 for gemm_coop_b_lines.wgsl.

// slots: stand-ins for what gemm_coop.wgsl provides.
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
// end slots

alias Wide = vec4<u32>;
fn wide_at(at: u32) -> Wide { return b[at]; }
fn wide_quad(of8: Wide, high: bool) -> vec4<f32> {
    let words = select(of8.xy, of8.zw, high).xxyy;
    return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.y & 0xffff0000u, words.z << 16u, words.w & 0xffff0000u));
}
