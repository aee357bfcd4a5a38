// Loads a whole quad of an operand of gemm.

// slots: stand-ins for what the linker provides.
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
fn a_get4(at4: u32) -> vec4<f32> { return a[at4]; }
// end slots

const A_UNIT = 4u;
fn a_four(start: u32, at: vec2<u32>) -> vec4<f32> { return a_get4(start); }
