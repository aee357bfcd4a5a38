// Quads of bf16 for flash_coop_scaled.wgsl.

// slots: nothing.
// end slots

alias Quad = vec2<u32>;
fn wide(x: Quad) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(x.x << 16u, x.x & 0xffff0000u, x.y << 16u, x.y & 0xffff0000u));
}
