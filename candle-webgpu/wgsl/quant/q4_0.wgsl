// Q4_0: blocks of 32, d (n - 8) with n in four bits: element i is the low half of byte i, i + 16 the high half.
// A group of 8 blocks: d 8 x 2 bytes | n 8 x 16 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
fn unit_sixteenths(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { n: array<vec4<u32>, 2>, d: u32 }

fn w_load(u: u32) -> Raw {
    let base = u / 8u * 9u;
    let n = base + 1u + u % 8u;
    return Raw(array(w_at(n), w_at(n + 1u)), w_word(base * 4u + u % 8u / 2u));
}

// The q returned here is 16 (n - 8).
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let n = r.n[j];
    let d = unpack2x16float(r.d)[j] * 0.0625;
    return Parts(unit_sixteenths(n << vec4<u32>(4u)), unit_sixteenths(n), vec2<i32>(1i), vec2<i32>(), vec2<f32>(d, 0.0));
}
