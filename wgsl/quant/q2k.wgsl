// Q2_K: blocks of 256, d s q - e t with q in two bits and s, t in four, shared by 16 elements: unit v has bits
// 2 (v % 4) and up of bytes 32 (v / 4) .. + 32 of q, and bytes 2 v, 2 v + 1 of the scales (s low, t high).
// A group of 4 blocks: (d, e) 4 x 4 bytes | scales 4 x 16 bytes | q 4 x 64 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

struct Raw { q: array<vec4<u32>, 2>, scales: vec2<u32>, de: u32 }

fn w_load(u: u32) -> Raw {
    let half = u / 4u % 2u;
    let block = u / 8u % 4u;
    let base = u / 32u * 21u;
    let scales = (base + 1u + block) * 4u + half * 2u;
    let q = base + 5u + block * 4u + half * 2u;
    return Raw(array(w_at(q), w_at(q + 1u)), vec2<u32>(w_word(scales), w_word(scales + 1u)), w_word(base * 4u + block));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Unit {
    let de = unpack2x16float(r.de);
    let scales = r.scales[j / 2u] >> (j % 2u * 16u);
    let shift = vec4<u32>(j * 2u);
    return Unit(
        (r.q[0] >> shift) & vec4<u32>(0x03030303u),
        (r.q[1] >> shift) & vec4<u32>(0x03030303u),
        de.x * vec2<f32>(f32(scales & 15u), f32((scales >> 8u) & 15u)),
        -de.y * vec2<f32>(f32((scales >> 4u) & 15u), f32((scales >> 12u) & 15u)),
    );
}
