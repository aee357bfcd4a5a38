// u32: one element is one word.

fn u32_get(word: u32, lane: u32) -> u32 { return word; }
fn u32_unpack(quad: vec4<u32>) -> vec4<u32> { return quad; }
fn u32_pack(v: vec4<u32>) -> vec4<u32> { return v; }
fn u32_word(v: vec4<u32>) -> u32 { return v.x; }
