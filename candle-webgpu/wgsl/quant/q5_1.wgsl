// Q5_1: blocks of 32, d n + m with n in five bits: the low four as in Q4_1, the fifth of element i is bit i of h.
// A group of 4 blocks: (d, m) 4 x 4 bytes | h 4 x 4 bytes | n 4 x 16 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_spread(bits: vec4<u32>, by: u32) -> vec4<u32> { return bits * by; }
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { n: array<vec4<u32>, 2>, h: vec2<u32>, dm: vec2<u32> }

fn w_load(u: u32) -> Raw {
    let base = u / 4u * 6u;
    let n = base + 2u + u % 4u;
    let h = (base + 1u) * 4u + u % 4u;
    let dm = base * 4u + u % 4u;
    return Raw(
        array(w_at(n), w_at(n + 1u)),
        vec2<u32>(w_word(h), w_word(h + 1u)),
        vec2<u32>(w_word(dm), w_word(dm + 1u)),
    );
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let n = r.n[j];
    let h = vec4<u32>(r.h[j]);
    let dm = unpack2x16float(r.dm[j]);
    let low = unit_spread(h >> vec4<u32>(0u, 4u, 8u, 12u), 0x02040810u) & vec4<u32>(0x10101010u);
    let high = unit_spread(h >> vec4<u32>(16u, 20u, 24u, 28u), 0x02040810u) & vec4<u32>(0x10101010u);
    return Parts(unit_nibbles(n) | low, unit_nibbles(n >> vec4<u32>(4u)) | high, vec2<i32>(1i), vec2<i32>(1i), dm);
}
