// Q3_K: blocks of 256, d (s - 32) (q - 4) with q in three bits and s in six, shared by 16 elements: unit v has bits
// 2 (v % 4) and up of bytes 32 (v / 4) .. + 32 of q, the third bit from bit v of the bytes of h. Scale i has its low
// half in byte i % 8, high half of the byte for i > 7, and its upper two bits in byte 8 + i % 4, from bit 2 (i / 4) on.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 12 bytes | h 8 x 32 bytes | q 8 x 64 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_signed(bytes: u32, i: u32) -> i32 { return i32(bytes); }
// end slots

struct Raw { q: array<vec4<u32>, 2>, h: array<vec4<u32>, 2>, scales: vec3<u32>, d: u32 }

fn w_load(u: u32) -> Raw {
    let block = u / 8u % 8u;
    let base = u / 64u * 55u;
    let scales = (base + 1u) * 4u + block * 3u;
    let h = base + 7u + block * 2u;
    let q = base + 23u + block * 4u + u / 4u % 2u * 2u;
    return Raw(
        array(w_at(q), w_at(q + 1u)),
        array(w_at(h), w_at(h + 1u)),
        vec3<u32>(w_word(scales), w_word(scales + 1u), w_word(scales + 2u)),
        w_word(base * 4u + block / 2u),
    );
}

// q of odd units is not shifted down, which leaves four times its value; even units get four times the scale instead.
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let four = u / 4u % 2u * 4u;
    // 4 (s - 32), signed.
    let low = ((r.scales[j / 2u] >> four) << 2u) & 0x3c3c3c3cu;
    let high = ((r.scales.z >> four) << (6u - j / 2u * 2u)) & 0xc0c0c0c0u;
    let s = (low | high) ^ 0x80808080u;
    let at = j % 2u * 2u;
    let scale = vec2<i32>(unit_signed(s, at), unit_signed(s, at + 1u));
    let d = unpack2x16float(r.d >> (u / 8u % 2u * 16u)).x;
    return Parts(
        three_bits(r.q[0], r.h[0] >> vec4<u32>(four), j),
        three_bits(r.q[1], r.h[1] >> vec4<u32>(four), j),
        scale << vec2<u32>(2u - j % 2u * 2u),
        scale,
        vec2<f32>(0.0625 * d, -d),
    );
}

fn three_bits(q: vec4<u32>, h: vec4<u32>, j: u32) -> vec4<u32> {
    let odd = j % 2u * 2u;
    let two = (q >> vec4<u32>(j / 2u * 4u)) & vec4<u32>(0x03030303u << odd);
    // Moves bit j to bit 2 + odd.
    let third = h << vec4<u32>(2u - j / 2u * 2u + j % 2u);
    return two | (third & vec4<u32>(0x04040404u << odd));
}
