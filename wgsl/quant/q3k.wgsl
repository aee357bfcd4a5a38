// Q3_K: blocks of 256, d (s - 32) (q - 4) with q in three bits and s in six, shared by 16 elements: unit v has bits
// 2 (v % 4) and up of bytes 32 (v / 4) .. + 32 of q, the third bit from bit v of the bytes of h. Scale i has its low
// half in byte i % 8, high half of the byte for i > 7, and its upper two bits in byte 8 + i % 4, from bit 2 (i / 4) on.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 12 bytes | h 8 x 32 bytes | q 8 x 64 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
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

// q is 32 (q - 4).
fn w_unpack(r: Raw, u: u32, j: u32) -> Unit {
    let four = u / 4u % 2u * 4u;
    // Scales 2 v and 2 v + 1 are neighbours.
    let low = r.scales[j / 2u] >> (j % 2u * 16u + four);
    let high = r.scales.z >> (j % 2u * 16u + four + j / 2u * 2u);
    let s = vec2<u32>(low & 15u, (low >> 8u) & 15u) | (vec2<u32>(high & 3u, (high >> 8u) & 3u) << vec2<u32>(4u));
    let d = unpack2x16float(r.d >> (u / 8u % 2u * 16u)).x * 0.03125;
    let third = vec4<u32>(four + j);
    return Unit(
        three_bits(r.q[0] >> vec4<u32>(j * 2u), r.h[0] >> third),
        three_bits(r.q[1] >> vec4<u32>(j * 2u), r.h[1] >> third),
        d * (vec2<f32>(s) - vec2<f32>(32.0)),
        vec2<f32>(),
    );
}

fn three_bits(q: vec4<u32>, h: vec4<u32>) -> vec4<u32> {
    let two = (q & vec4<u32>(0x03030303u)) << vec4<u32>(5u);
    return (two | ((h & vec4<u32>(0x01010101u)) << vec4<u32>(7u))) ^ vec4<u32>(0x80808080u);
}
