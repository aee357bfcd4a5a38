// Rounding to 16 bits: how many steps four values are, and what a step is worth, where `bits` are those of the greatest
// magnitude of a block. Below 1e-34, where the quotient would overflow, all is zero; a NaN or an infinity makes the
// step NaN.

const STEPS = 32639.0; // 127 * 256 + 127: two signed bytes

fn is_ordinary(bits: u32) -> bool { return bits >= 0x07400000u && bits < 0x7f800000u; }

fn steps_of(v: vec4<f32>, bits: u32) -> vec4<i32> {
    if !is_ordinary(bits) { return vec4<i32>(); }
    return vec4<i32>(round(v * (STEPS / bitcast<f32>(bits))));
}

fn worth_of(bits: u32) -> f32 {
    if is_ordinary(bits) { return bitcast<f32>(bits) / STEPS; }
    return bitcast<f32>(select(0u, 0x7fc00000u, bits >= 0x7f800000u));
}

// The greatest magnitude of four, as bits: NaN is greater than infinity.
fn magnitude(v: vec4<f32>) -> u32 {
    let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
