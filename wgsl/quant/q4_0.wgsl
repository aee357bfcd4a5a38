// Q4_0: blocks of 32, d (n - 8) with n in four bits: element i is the low half of byte i, i + 16 the high half.
// A group of 8 blocks: d 8 x 2 bytes | n 8 x 16 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

fn w_unit(u: u32) -> Unit {
    let base = u / 8u * 9u;
    let j = u % 8u;
    let n = w_at(base + 1u + j);
    let d = unpack2x16float(w_word(base * 4u + j / 2u) >> (j % 2u * 16u)).xx;
    return Unit(n & vec4<u32>(0x0f0f0f0fu), (n >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu), d, -8.0 * d);
}
