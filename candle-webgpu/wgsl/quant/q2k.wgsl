// Q2_K: blocks of 256, d s q - e t with q in two bits and s, t in four, shared by 16 elements: unit v has bits
// 2 (v % 4) and up of bytes 32 (v / 4) .. + 32 of q, and bytes 2 v, 2 v + 1 of the scales (s low, t high).
// A group of 4 blocks: (d, e) 4 x 4 bytes | scales 4 x 16 bytes | q 4 x 64 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_byte(bytes: u32, i: u32) -> i32 { return i32(bytes); }
// end slots

struct Raw { q: array<vec4<u32>, 2>, scales: vec4<u32>, de: u32 }

fn w_load(u: u32) -> Raw {
    let block = u / 8u % 4u;
    let base = u / 32u * 21u;
    let q = base + 5u + block * 4u + u / 4u % 2u * 2u;
    return Raw(array(w_at(q), w_at(q + 1u)), w_at(base + 1u + block), w_word(base * 4u + block));
}

// q of odd units is not shifted down, which leaves four times its value; even units get four times the scale instead.
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let de = unpack2x16float(r.de);
    let words = select(r.scales.xy, r.scales.zw, u / 4u % 2u == 1u);
    let word = words[j / 2u];
    let s = ((word << 2u) & 0x3c3cu) | (word & 0x0f0f0000u);
    let t = (word >> 4u) & 0x0f0f0f0fu;
    let shift = vec4<u32>(j / 2u * 4u);
    let mask = vec4<u32>(0x03030303u << (j % 2u * 2u));
    let at = j % 2u * 2u;
    return Parts(
        (r.q[0] >> shift) & mask,
        (r.q[1] >> shift) & mask,
        vec2<i32>(unit_byte(s, at), unit_byte(s, at + 1u)),
        vec2<i32>(unit_byte(t, at), unit_byte(t, at + 1u)),
        vec2<f32>(0.25 * de.x, -de.y),
    );
}
