// Q5_0: blocks of 32, d (n - 16) with n in five bits: the low four as in Q4_0, the fifth of element i is bit i of h.
// A group of 8 blocks: d 8 x 2 bytes | h 8 x 4 bytes | n 8 x 16 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_spread(bits: vec4<u32>, by: u32) -> vec4<u32> { return bits * by; }
// end slots

struct Raw { n: array<vec4<u32>, 2>, h: vec2<u32>, d: u32 }

fn w_load(u: u32) -> Raw {
    let base = u / 8u * 11u;
    let n = base + 3u + u % 8u;
    let h = (base + 1u) * 4u + u % 8u;
    return Raw(array(w_at(n), w_at(n + 1u)), vec2<u32>(w_word(h), w_word(h + 1u)), w_word(base * 4u + u % 8u / 2u));
}

// The q returned here is 8 (n - 16).
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let n = r.n[j];
    let h = vec4<u32>(r.h[j]);
    let d = unpack2x16float(r.d)[j] * 0.125;
    let low = unit_spread(h >> vec4<u32>(0u, 4u, 8u, 12u), 0x10204080u) & vec4<u32>(0x80808080u);
    let high = unit_spread(h >> vec4<u32>(16u, 20u, 24u, 28u), 0x10204080u) & vec4<u32>(0x80808080u);
    let rest = vec4<u32>(0x78787878u);
    let top = vec4<u32>(0x80808080u);
    return Parts(
        (((n << vec4<u32>(3u)) & rest) | low) ^ top,
        (((n >> vec4<u32>(1u)) & rest) | high) ^ top,
        vec2<i32>(1i),
        vec2<i32>(),
        vec2<f32>(d, 0.0),
    );
}
