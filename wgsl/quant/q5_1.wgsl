// Q5_1: blocks of 32, d n + m with n in five bits: the low four as in Q4_1, the fifth of element i is bit i of h.
// A group of 4 blocks: (d, m) 4 x 4 bytes | h 4 x 4 bytes | n 4 x 16 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_spread(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

fn w_unit(u: u32) -> Unit {
    let base = u / 4u * 6u;
    let j = u % 4u;
    let n = w_at(base + 2u + j);
    let h = vec4<u32>(w_word((base + 1u) * 4u + j));
    let dm = unpack2x16float(w_word(base * 4u + j));
    let low = unit_spread(h >> vec4<u32>(0u, 4u, 8u, 12u)) << vec4<u32>(4u);
    let high = unit_spread(h >> vec4<u32>(16u, 20u, 24u, 28u)) << vec4<u32>(4u);
    return Unit(
        (n & vec4<u32>(0x0f0f0f0fu)) | low,
        ((n >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu)) | high,
        dm.xx,
        dm.yy,
    );
}
