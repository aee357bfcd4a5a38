// 32 consecutive elements of a quantized operand, as every file of quant/ gives them: element i is
// scale[i / 16] * q_i + shift[i / 16], where q_i is a signed byte.

// slots: what a file of quant/ brings.
const W_SPAN = 1u;
struct Raw { q: u32 }
fn w_load(u: u32) -> Raw { return Raw(u); }
fn w_unpack(r: Raw, u: u32, j: u32) -> Unit { return Unit(vec4<u32>(r.q), vec4<u32>(u), vec2<f32>(), vec2<f32>()); }
// end slots

struct Unit {
    low: vec4<u32>,  // q of elements 0..15, four in a word
    high: vec4<u32>, // q of elements 16..31
    scale: vec2<f32>,
    shift: vec2<f32>,
}

// Unit u. Spans of W_SPAN neighbours are loaded together: `w_load` takes a span's first unit.
fn w_unit(u: u32) -> Unit {
    let j = u % W_SPAN;
    return w_unpack(w_load(u - j), u - j, j);
}

// Four q.
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }

// The low four bits of each byte.
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits & vec4<u32>(0x0f0f0f0fu); }

// 16 (n - 8) for the high four bits n of each byte.
fn unit_sixteenths(bits: vec4<u32>) -> vec4<u32> { return (bits & vec4<u32>(0xf0f0f0f0u)) ^ vec4<u32>(0x80808080u); }

// Bit i < 4 of each word to bit 8 i + e of it, if by is the sum of 2^(e + 7 i); other bits are set, too.
fn unit_spread(bits: vec4<u32>, by: u32) -> vec4<u32> { return (bits & vec4<u32>(15u)) * by; }

// The six-bit scale and minimum of unit v of a Q4_K or Q5_K block, from 12 bytes: those of the first four units are the
// low six bits of bytes v and v + 4; those of the others have four bits in byte v + 4 and two at the top of bytes v - 4
// and v.
fn unit_scale_min(head: vec4<u32>, v: u32) -> vec2<f32> {
    let at = v % 4u * 8u;
    let s = head.y >> at;
    let m = head.z >> at;
    let t = head.w >> at;
    let late = vec2<u32>((t & 15u) | ((s >> 2u) & 48u), ((t >> 4u) & 15u) | ((m >> 2u) & 48u));
    return vec2<f32>(select(late, vec2<u32>(s, m) & vec2<u32>(63u), v < 4u));
}
