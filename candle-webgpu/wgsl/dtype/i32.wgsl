// i32: one element is one word.

fn i32_get(word: i32, lane: u32) -> i32 { return word; }
fn i32_unpack(quad: vec4<i32>) -> vec4<i32> { return quad; }
fn i32_pack(v: vec4<i32>) -> vec4<i32> { return v; }
fn i32_word(v: vec4<i32>) -> i32 { return v.x; }
