// Q8_0: blocks of 32, d q with q in eight bits.
// A group of 8 blocks: d 8 x 2 bytes | q 8 x 32 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

fn w_unit(u: u32) -> Unit {
    let base = u / 8u * 17u;
    let j = u % 8u;
    let q = base + 1u + j * 2u;
    let d = unpack2x16float(w_word(base * 4u + j / 2u) >> (j % 2u * 16u)).xx;
    return Unit(w_at(q), w_at(q + 1u), d, vec2<f32>());
}
