// bf16: the upper half of an f32; two elements in a word, computed as f32.

fn bf16_get(word: u32, lane: u32) -> f32 { return bitcast<f32>((word >> (16u * lane)) << 16u); }

fn bf16_unpack(quad: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(
        quad.x << 16u,
        quad.x & 0xffff0000u,
        quad.y << 16u,
        quad.y & 0xffff0000u,
    ));
}

// Ties to even. A NaN keeps its upper payload and becomes quiet, so that rounding cannot turn it into an infinity.
fn bf16_bits(v: vec4<f32>) -> vec4<u32> {
    let b = bitcast<vec4<u32>>(v);
    let rounded = (b + vec4<u32>(0x7fffu) + ((b >> vec4<u32>(16u)) & vec4<u32>(1u))) >> vec4<u32>(16u);
    let quiet = (b >> vec4<u32>(16u)) | vec4<u32>(0x40u);
    return select(rounded, quiet, (b & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

fn bf16_pack(v: vec4<f32>) -> vec2<u32> {
    let h = bf16_bits(v);
    return vec2<u32>(h.x | (h.y << 16u), h.z | (h.w << 16u));
}

fn bf16_word(v: vec4<f32>) -> u32 { return bf16_pack(v).x; }

fn bf16_set(word: u32, lane: u32, v: f32) -> u32 {
    let shift = 16u * lane;
    return (word & ~(0xffffu << shift)) | (bf16_bits(vec4<f32>(v)).x << shift);
}
