// Q3_K: blocks of 256, d (s - 32) (q - 4) with q in three bits and s in six, shared by 16 elements: unit v has bits
// 2 (v % 4) and up of bytes 32 (v / 4) .. + 32 of q, the third bit from bit v of the bytes of h. Scale i has its low
// half in byte i % 8, high half of the byte for i > 7, and its upper two bits in byte 8 + i % 4, from bit 2 (i / 4) on.
// A group of 8 blocks: d 8 x 2 bytes | scales 8 x 12 bytes | h 8 x 32 bytes | q 8 x 64 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

fn w_unit(u: u32) -> Unit {
    let v = u % 8u;
    let j = u / 8u % 8u;
    let base = u / 64u * 55u;
    // Scales 2 v and 2 v + 1 are neighbours.
    let scales = (base + 1u) * 4u + j * 3u;
    let fours = w_word(scales + v % 4u / 2u) >> (v % 2u * 16u + v / 4u * 4u);
    let twos = w_word(scales + 2u) >> (v % 2u * 16u + v / 2u * 2u);
    let s = vec2<u32>(fours & 15u, (fours >> 8u) & 15u) | (vec2<u32>(twos & 3u, (twos >> 8u) & 3u) << vec2<u32>(4u));
    let d = unpack2x16float(w_word(base * 4u + j / 2u) >> (j % 2u * 16u)).x;
    let scale = d * (vec2<f32>(s) - vec2<f32>(32.0));
    let h = base + 7u + j * 2u;
    let q = base + 23u + j * 4u + v / 4u * 2u;
    let shift = vec4<u32>(v % 4u * 2u);
    let third = vec4<u32>(v);
    let ones = vec4<u32>(0x01010101u);
    return Unit(
        ((w_at(q) >> shift) & vec4<u32>(0x03030303u)) | (((w_at(h) >> third) & ones) << vec4<u32>(2u)),
        ((w_at(q + 1u) >> shift) & vec4<u32>(0x03030303u)) | (((w_at(h + 1u) >> third) & ones) << vec4<u32>(2u)),
        scale,
        -4.0 * scale,
    );
}
