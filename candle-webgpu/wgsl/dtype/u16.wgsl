// u16: two elements in a word, computed as u32. Packing keeps the low bits. Copies move all 16-bit dtypes as u16.

fn u16_get(word: u32, lane: u32) -> u32 { return (word >> (16u * lane)) & 0xffffu; }

fn u16_unpack(quad: vec2<u32>) -> vec4<u32> {
    return vec4<u32>(quad.x & 0xffffu, quad.x >> 16u, quad.y & 0xffffu, quad.y >> 16u);
}

fn u16_pack(v: vec4<u32>) -> vec2<u32> {
    return vec2<u32>((v.x & 0xffffu) | (v.y << 16u), (v.z & 0xffffu) | (v.w << 16u));
}

fn u16_word(v: vec4<u32>) -> u32 { return (v.x & 0xffffu) | (v.y << 16u); }

fn u16_set(word: u32, lane: u32, v: u32) -> u32 {
    let shift = 16u * lane;
    return (word & ~(0xffffu << shift)) | ((v & 0xffffu) << shift);
}
