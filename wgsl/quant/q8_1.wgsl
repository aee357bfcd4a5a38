// Q8_1: blocks of 32, d q with q in eight bits; s, d times the sum of q, is not used here.
// A group of 4 blocks: (d, s) 4 x 4 bytes | q 4 x 32 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

fn w_unit(u: u32) -> Unit {
    let base = u / 4u * 9u;
    let j = u % 4u;
    let q = base + 1u + j * 2u;
    return Unit(w_at(q), w_at(q + 1u), unpack2x16float(w_word(base * 4u + j)).xx, vec2<f32>());
}
