// Quads of f32 for flash_coop_scaled.wgsl.

// slots: nothing.
// end slots

alias Quad = vec4<f32>;
fn wide(x: Quad) -> vec4<f32> { return x; }
