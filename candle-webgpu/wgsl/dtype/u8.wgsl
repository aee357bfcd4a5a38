// u8: four elements in a word, computed as u32. Packing keeps the low bits, so arithmetic wraps.

fn u8_get(word: u32, lane: u32) -> u32 { return (word >> (8u * lane)) & 0xffu; }

fn u8_unpack(quad: u32) -> vec4<u32> {
    return (vec4<u32>(quad) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
}

fn u8_pack(v: vec4<u32>) -> u32 {
    let b = (v & vec4<u32>(0xffu)) << vec4<u32>(0u, 8u, 16u, 24u);
    return b.x | b.y | b.z | b.w;
}

fn u8_word(v: vec4<u32>) -> u32 { return u8_pack(v); }

fn u8_set(word: u32, lane: u32, v: u32) -> u32 {
    let shift = 8u * lane;
    return (word & ~(0xffu << shift)) | ((v & 0xffu) << shift);
}
