// Q4_1: blocks of 32, d n + m with n in four bits: element i is the low half of byte i, i + 16 the high half.
// A group of 4 blocks: (d, m) 4 x 4 bytes | n 4 x 16 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { n: array<vec4<u32>, 2>, dm: vec2<u32> }

fn w_load(u: u32) -> Raw {
    let base = u / 4u * 5u;
    let n = base + 1u + u % 4u;
    let dm = base * 4u + u % 4u;
    return Raw(array(w_at(n), w_at(n + 1u)), vec2<u32>(w_word(dm), w_word(dm + 1u)));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let n = r.n[j];
    let dm = unpack2x16float(r.dm[j]);
    return Parts(unit_nibbles(n), unit_nibbles(n >> vec4<u32>(4u)), vec2<i32>(1i), vec2<i32>(1i), dm);
}
