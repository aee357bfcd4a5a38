// f32: one element is one word.

fn f32_get(word: f32, lane: u32) -> f32 { return word; }
fn f32_unpack(quad: vec4<f32>) -> vec4<f32> { return quad; }
fn f32_pack(v: vec4<f32>) -> vec4<f32> { return v; }
fn f32_word(v: vec4<f32>) -> f32 { return v.x; }
