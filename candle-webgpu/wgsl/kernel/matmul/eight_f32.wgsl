// a_eight(row, k): eight f32 of a row from k on, by loads of 16 bytes.

// slots: stand-ins for what the kernel provides.
struct Eight { low: vec4<f32>, high: vec4<f32> }
@group(0) @binding(1) var<storage, read> a: array<A>;
// end slots

alias A = vec4<f32>;
fn a_eight(row: u32, k: u32) -> Eight { let q = (row + k) / 4u; return Eight(a[q], a[q + 1u]); }
