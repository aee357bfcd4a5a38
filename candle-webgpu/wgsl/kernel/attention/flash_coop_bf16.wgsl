// Quads of bf16 for flash_coop_scaled.wgsl.

// slots: stand-ins for what the linker provides.
fn bf16_unpack(quad: vec2<u32>) -> vec4<f32> { return vec4<f32>(quad.xyxy); }
// end slots

alias Quad = vec2<u32>;
fn wide(x: Quad) -> vec4<f32> { return bf16_unpack(x); }
