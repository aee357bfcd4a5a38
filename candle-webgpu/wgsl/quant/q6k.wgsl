// Q6_K: blocks of 256, d s (q - 32) with q in six bits and s a signed byte, shared by 16 elements. With v = 4 a + b,
// unit v has the low (b < 2) or high half of bytes 64 a + 32 (b % 2) .. + 32 of l below bits 2 b and up of bytes
// 32 a .. + 32 of h, and scales 2 v, 2 v + 1.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 16 bytes | h 8 x 64 bytes | l 8 x 128 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_signed(bytes: u32, i: u32) -> i32 { return i32(bytes); }
// end slots

struct Raw { l: array<vec4<u32>, 4>, h: array<vec4<u32>, 2>, scales: vec4<u32>, d: u32 }

fn w_load(u: u32) -> Raw {
    let half = u / 4u % 2u;
    let block = u / 8u % 8u;
    let base = u / 64u * 105u;
    let h = base + 9u + block * 4u + half * 2u;
    let l = base + 41u + block * 8u + half * 4u;
    return Raw(
        array(w_at(l), w_at(l + 1u), w_at(l + 2u), w_at(l + 3u)),
        array(w_at(h), w_at(h + 1u)),
        w_at(base + 1u + block),
        w_word(base * 4u + block / 2u),
    );
}

// The q returned here is 4 (q - 32).
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let words = select(r.scales.xy, r.scales.zw, u / 4u % 2u == 1u);
    let at = j % 2u * 2u;
    let d = unpack2x16float(r.d >> (u / 8u % 2u * 16u)).x * 0.25;
    return Parts(
        six_bits(r.l[at], r.h[0], j),
        six_bits(r.l[at + 1u], r.h[1], j),
        vec2<i32>(unit_signed(words[j / 2u], at), unit_signed(words[j / 2u], at + 1u)),
        vec2<i32>(),
        vec2<f32>(d, 0.0),
    );
}

fn six_bits(l: vec4<u32>, h: vec4<u32>, j: u32) -> vec4<u32> {
    let four = (((l >> vec4<u32>(j / 2u * 4u)) << vec4<u32>(2u)) & vec4<u32>(0x3c3c3c3cu)) ^ vec4<u32>(0x80808080u);
    return four ^ ((h << vec4<u32>(6u - j * 2u)) & vec4<u32>(0xc0c0c0c0u));
}
