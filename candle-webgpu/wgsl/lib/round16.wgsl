// Block quantization to 16 bits: steps_of(v, bits) gives four values as multiples of the step scale_of(bits), where `bits` is the bit
// pattern of the block's greatest magnitude. A step is a power of two, so values of few bits (integers, narrow floats) are exact. A block
// below 2e-34 becomes zero, since the quotient would overflow; a NaN or an infinity makes the step NaN.

fn is_ordinary(bits: u32) -> bool { return bits >= 0x07800000u && bits < 0x7f800000u; }

// The exponent of the smallest step for which the greatest magnitude is at most 32639 = 127 * 256 + 127 steps: two signed bytes.
fn step_exponent(bits: u32) -> u32 { return ((bits + 0x101ffu) >> 23u) - 14u; }

fn steps_of(v: vec4<f32>, bits: u32) -> vec4<i32> {
    let steps = select(0.0, bitcast<f32>((254u - step_exponent(bits)) << 23u), is_ordinary(bits));
    // 3 * 2^22 leaves the nearest integer, ties to even, in the low bits of the sum.
    let sum = v * steps + vec4<f32>(12582912.0);
    return bitcast<vec4<i32>>(sum) - vec4<i32>(0x4b400000i);
}

fn scale_of(bits: u32) -> f32 {
    if is_ordinary(bits) { return bitcast<f32>(step_exponent(bits) << 23u); }
    return bitcast<f32>(select(0u, 0x7fc00000u, bits >= 0x7f800000u));
}

// The greatest magnitude of four values, as bits; NaN is greater than infinity.
fn magnitude(v: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
