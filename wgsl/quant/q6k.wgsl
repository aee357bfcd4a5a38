// Q6_K: blocks of 256, d s (q - 32) with q in six bits and s a signed byte, shared by 16 elements. With v = 4 a + b,
// unit v has the low (b < 2) or high half of bytes 64 a + 32 (b % 2) .. + 32 of l below bits 2 b and up of bytes
// 32 a .. + 32 of h, and scales 2 v, 2 v + 1.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 16 bytes | h 8 x 64 bytes | l 8 x 128 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { l: array<vec4<u32>, 4>, h: array<vec4<u32>, 2>, scales: vec2<u32>, d: u32 }

fn w_load(u: u32) -> Raw {
    let half = u / 4u % 2u;
    let block = u / 8u % 8u;
    let base = u / 64u * 105u;
    let scales = (base + 1u + block) * 4u + half * 2u;
    let h = base + 9u + block * 4u + half * 2u;
    let l = base + 41u + block * 8u + half * 4u;
    return Raw(
        array(w_at(l), w_at(l + 1u), w_at(l + 2u), w_at(l + 3u)),
        array(w_at(h), w_at(h + 1u)),
        vec2<u32>(w_word(scales), w_word(scales + 1u)),
        w_word(base * 4u + block / 2u),
    );
}

// q is 4 (q - 32).
fn w_unpack(r: Raw, u: u32, j: u32) -> Unit {
    let scales = vec2<f32>(unpack4xI8(r.scales[j / 2u] >> (j % 2u * 16u)).xy);
    let d = unpack2x16float(r.d >> (u / 8u % 2u * 16u)).x * 0.25;
    let l = j % 2u * 2u;
    return Unit(six_bits(r.l[l], r.h[0], j), six_bits(r.l[l + 1u], r.h[1], j), d * scales, vec2<f32>());
}

fn six_bits(l: vec4<u32>, h: vec4<u32>, j: u32) -> vec4<u32> {
    let four = unit_nibbles(l >> vec4<u32>(j / 2u * 4u)) << vec4<u32>(2u);
    let two = ((h >> vec4<u32>(j * 2u)) & vec4<u32>(0x03030303u)) << vec4<u32>(6u);
    return (four | two) ^ vec4<u32>(0x80808080u);
}
