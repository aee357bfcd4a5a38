// i16: two elements in a word, computed as i32. Packing keeps the low bits, so arithmetic wraps.

fn i16_get(word: u32, lane: u32) -> i32 { return bitcast<i32>(word << (16u - 16u * lane)) >> 16u; }

fn i16_unpack(quad: vec2<u32>) -> vec4<i32> {
    return bitcast<vec4<i32>>(vec4<u32>(quad.x << 16u, quad.x, quad.y << 16u, quad.y)) >> vec4<u32>(16u);
}

fn i16_pack(v: vec4<i32>) -> vec2<u32> {
    let b = bitcast<vec4<u32>>(v);
    return vec2<u32>((b.x & 0xffffu) | (b.y << 16u), (b.z & 0xffffu) | (b.w << 16u));
}

fn i16_word(v: vec4<i32>) -> u32 { return i16_pack(v).x; }

fn i16_set(word: u32, lane: u32, v: i32) -> u32 {
    let shift = 16u * lane;
    return (word & ~(0xffffu << shift)) | ((bitcast<u32>(v) & 0xffffu) << shift);
}
