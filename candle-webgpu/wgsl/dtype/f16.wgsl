// f16: two elements in a word, computed as f32 without `shader-f16`.

fn f16_get(word: u32, lane: u32) -> f32 { return unpack2x16float(word >> (16u * lane)).x; }

fn f16_unpack(quad: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(quad.x), unpack2x16float(quad.y));
}

// Ties to even; 65520 and more become infinite; NaN stays NaN. In integers, since `pack2x16float` may round either way and is undefined
// on overflow.
fn f16_bits(v: vec4<f32>) -> vec4<u32> {
    let b = bitcast<vec4<u32>>(v);
    let a = b & vec4<u32>(0x7fffffffu);
    // Rebias the exponent from 127 to 15 and round away 13 bits.
    let normal = (a - vec4<u32>(0x38000000u) + vec4<u32>(0xfffu) + ((a >> vec4<u32>(13u)) & vec4<u32>(1u))) >> vec4<u32>(13u);
    // Below 2^-14: the last place of an f32 near 0.5 is that of a subnormal f16, so the sum rounds as needed.
    let small = bitcast<vec4<u32>>(bitcast<vec4<f32>>(min(a, vec4<u32>(0x38800000u))) + vec4<f32>(0.5)) - vec4<u32>(0x3f000000u);
    var h = select(normal, small, a < vec4<u32>(0x38800000u));
    h = select(h, vec4<u32>(0x7c00u), a >= vec4<u32>(0x477ff000u));
    h = select(h, vec4<u32>(0x7e00u), a > vec4<u32>(0x7f800000u));
    return h | ((b >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
}

fn f16_pack(v: vec4<f32>) -> vec2<u32> {
    let h = f16_bits(v);
    return vec2<u32>(h.x | (h.y << 16u), h.z | (h.w << 16u));
}

fn f16_word(v: vec4<f32>) -> u32 { return f16_pack(v).x; }

fn f16_set(word: u32, lane: u32, v: f32) -> u32 {
    let shift = 16u * lane;
    return (word & ~(0xffffu << shift)) | (f16_bits(vec4<f32>(v)).x << shift);
}
