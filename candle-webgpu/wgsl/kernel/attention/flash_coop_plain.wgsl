// Operands of flash_coop in f16, which are used as they are.

// slots: nothing.
enable f16;
// end slots

alias Quad = vec4<f16>;
fn find_scales(thread: u32, i: u32, key: Quad, value: Quad) {}
fn narrow_key(x: Quad) -> vec4<f16> { return x; }
fn narrow_value(x: Quad) -> vec4<f16> { return x; }
fn query_scale(row: u32) -> f32 { return 1.0; }
fn by_keys(dots: vec4<f32>, j: u32) -> vec4<f32> { return dots; }
fn by_values(weights: vec4<f32>, j: u32) -> vec4<f32> { return weights; }
fn with_values(scores: vec4<f32>, j: u32) -> vec4<f32> { return scores; }
