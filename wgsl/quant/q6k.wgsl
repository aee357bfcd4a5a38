// Q6_K: blocks of 256, d s (q - 32) with q in six bits and s a signed byte, shared by 16 elements. With v = 4 a + b,
// unit v has the low (b < 2) or high half of bytes 64 a + 32 (b % 2) .. + 32 of l below bits 2 b and up of bytes
// 32 a .. + 32 of h, and scales 2 v, 2 v + 1.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 16 bytes | h 8 x 64 bytes | l 8 x 128 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

fn w_unit(u: u32) -> Unit {
    let v = u % 8u;
    let j = u / 8u % 8u;
    let base = u / 64u * 105u;
    let scales = vec2<f32>(unpack4xI8(w_word((base + 1u + j) * 4u + v / 2u) >> (v % 2u * 16u)).xy);
    let scale = unpack2x16float(w_word(base * 4u + j / 2u) >> (j % 2u * 16u)).x * scales;
    let h = base + 9u + j * 4u + v / 4u * 2u;
    let l = base + 41u + j * 8u + v / 4u * 4u + v % 2u * 2u;
    let half = vec4<u32>(v / 2u % 2u * 4u);
    let top = vec4<u32>(v % 4u * 2u);
    let fours = vec4<u32>(0x0f0f0f0fu);
    let twos = vec4<u32>(0x03030303u);
    return Unit(
        ((w_at(l) >> half) & fours) | (((w_at(h) >> top) & twos) << vec4<u32>(4u)),
        ((w_at(l + 1u) >> half) & fours) | (((w_at(h + 1u) >> top) & twos) << vec4<u32>(4u)),
        scale,
        -32.0 * scale,
    );
}
