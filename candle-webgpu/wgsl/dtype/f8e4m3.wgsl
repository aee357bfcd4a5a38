// f8e4m3: four elements in a word, computed as f32. A sign, four bits of exponent with a bias of 7, three of mantissa;
// no infinities, and all ones is NaN.

// From the lowest byte of each component.
fn f8e4m3_values(b: vec4<u32>) -> vec4<f32> {
    let a = b & vec4<u32>(0x7fu);
    let normal = (a << vec4<u32>(20u)) + vec4<u32>(0x3c000000u);
    // Below 2^-6: multiples of 2^-9.
    let small = bitcast<vec4<u32>>(vec4<f32>(a) * vec4<f32>(0.001953125));
    var v = select(normal, small, a < vec4<u32>(8u));
    v = select(v, vec4<u32>(0x7fc00000u), a == vec4<u32>(0x7fu));
    return bitcast<vec4<f32>>(v | ((b & vec4<u32>(0x80u)) << vec4<u32>(24u)));
}

// Ties to even; saturates to 448, as infinities do; NaN stays NaN.
fn f8e4m3_bits(v: vec4<f32>) -> vec4<u32> {
    let b = bitcast<vec4<u32>>(v);
    let a = b & vec4<u32>(0x7fffffffu);
    let most = min(a, vec4<u32>(0x43e00000u));
    // Rebias the exponent from 127 to 7 and round away 20 bits.
    let normal = (most - vec4<u32>(0x3c000000u) + vec4<u32>(0x7ffffu) + ((most >> vec4<u32>(20u)) & vec4<u32>(1u))) >> vec4<u32>(20u);
    // Below 2^-6: the last place of an f32 near 2^14 is 2^-9, that of a subnormal, so the sum rounds as needed.
    let least = bitcast<vec4<f32>>(min(a, vec4<u32>(0x3c800000u)));
    let small = bitcast<vec4<u32>>(least + vec4<f32>(16384.0)) - vec4<u32>(0x46800000u);
    var h = select(normal, small, a < vec4<u32>(0x3c800000u));
    h = select(h, vec4<u32>(0x7fu), a > vec4<u32>(0x7f800000u));
    return h | ((b >> vec4<u32>(24u)) & vec4<u32>(0x80u));
}

fn f8e4m3_get(word: u32, lane: u32) -> f32 { return f8e4m3_values(vec4<u32>((word >> (8u * lane)) & 0xffu)).x; }

fn f8e4m3_unpack(quad: u32) -> vec4<f32> {
    return f8e4m3_values((vec4<u32>(quad) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu));
}

fn f8e4m3_pack(v: vec4<f32>) -> u32 {
    let b = f8e4m3_bits(v) << vec4<u32>(0u, 8u, 16u, 24u);
    return b.x | b.y | b.z | b.w;
}

fn f8e4m3_word(v: vec4<f32>) -> u32 { return f8e4m3_pack(v); }

fn f8e4m3_set(word: u32, lane: u32, v: f32) -> u32 {
    let shift = 8u * lane;
    return (word & ~(0xffu << shift)) | (f8e4m3_bits(vec4<f32>(v)).x << shift);
}
