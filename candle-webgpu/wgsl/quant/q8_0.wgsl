// Q8_0: blocks of 32, d q with q in eight bits.
// A group of 8 blocks: d 8 x 2 bytes | q 8 x 32 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

struct Raw { q: array<vec4<u32>, 2>, d: u32 }

fn w_load(u: u32) -> Raw {
    let base = u / 8u * 17u;
    let q = base + 1u + u % 8u * 2u;
    return Raw(array(w_at(q), w_at(q + 1u)), w_word(base * 4u + u % 8u / 2u));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let d = unpack2x16float(r.d >> (u % 2u * 16u)).x;
    return Parts(r.q[0], r.q[1], vec2<i32>(1i), vec2<i32>(), vec2<f32>(d, 0.0));
}
