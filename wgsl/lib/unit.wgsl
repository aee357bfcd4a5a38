// 32 consecutive elements of a quantized operand, as every file of quant/ gives them: element i is
// scale[i / 16] * q_i + shift[i / 16], where q_i is a signed byte.
struct Unit {
    low: vec4<u32>,  // q of elements 0..15, four in a word
    high: vec4<u32>, // q of elements 16..31
    scale: vec2<f32>,
    shift: vec2<f32>,
}

// Four q.
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }

// Bits 0 to 3 of each word to bit 0 of its bytes.
fn unit_spread(bits: vec4<u32>) -> vec4<u32> {
    return ((bits & vec4<u32>(15u)) * 0x00204081u) & vec4<u32>(0x01010101u);
}

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
