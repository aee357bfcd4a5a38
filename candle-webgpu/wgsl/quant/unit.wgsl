// A unit: 32 consecutive elements of a quantized operand. The files of quant/ return its parts: element i is
// factor.x scale[i / 16] q_i + factor.y shift[i / 16], where q_i is a signed byte, and scales and shifts are integers.

// slots: stand-ins for the declarations of a file of quant/.
const W_SPAN = 1u;
struct Raw { q: u32 }
fn w_load(u: u32) -> Raw { return Raw(u); }
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    return Parts(vec4<u32>(r.q), vec4<u32>(u), vec2<i32>(), vec2<i32>(), vec2<f32>());
}
// end slots

struct Parts {
    low: vec4<u32>,  // q of elements 0..15, four per word
    high: vec4<u32>, // q of elements 16..31
    scale: vec2<i32>,
    shift: vec2<i32>,
    factor: vec2<f32>, // of the scales, of the shifts
}

// A unit with scales and shifts multiplied by their factors: element i is scale[i / 16] q_i + shift[i / 16].
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }

// Loads unit u. Spans of W_SPAN adjacent units are loaded together: `w_load` takes the first unit of a span.
fn w_unit(u: u32) -> Unit {
    let j = u % W_SPAN;
    let q = w_unpack(w_load(u - j), u - j, j);
    return Unit(q.low, q.high, q.factor.x * vec2<f32>(q.scale), q.factor.y * vec2<f32>(q.shift));
}

// Four q of a word, as floats.
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }

// The low four bits of each byte.
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits & vec4<u32>(0x0f0f0f0fu); }

// 16 (n - 8) for the high four bits n of each byte.
fn unit_sixteenths(bits: vec4<u32>) -> vec4<u32> { return (bits & vec4<u32>(0xf0f0f0f0u)) ^ vec4<u32>(0x80808080u); }

// Moves bit i < 4 of each word to bit 8 i + e, if `by` is the sum of 2^(e + 7 i); sets other bits as well.
fn unit_spread(bits: vec4<u32>, by: u32) -> vec4<u32> { return (bits & vec4<u32>(15u)) * by; }

// Four scales (x) and four minima (y) of a Q4_K or Q5_K block, as bytes, from 12 bytes: those of the first four units are the
// low six bits of bytes v and v + 4; those of the others have four bits in byte v + 4 and two at the top of bytes v - 4
// and v.
fn unit_scales_mins(head: vec4<u32>, late: bool) -> vec2<u32> {
    let six = vec2<u32>(0x3f3f3f3fu);
    let four = vec2<u32>(head.w, head.w >> 4u) & vec2<u32>(0x0f0f0f0fu);
    return select(head.yz & six, four | ((head.yz >> vec2<u32>(2u)) & vec2<u32>(0x30303030u)), late);
}

// Byte i, unsigned.
fn unit_byte(bytes: u32, i: u32) -> i32 { return i32(extractBits(bytes, 8u * i, 8u)); }

// Byte i, signed.
fn unit_signed(bytes: u32, i: u32) -> i32 { return extractBits(bitcast<i32>(bytes), 8u * i, 8u); }
