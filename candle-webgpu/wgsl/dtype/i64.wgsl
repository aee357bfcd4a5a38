// i64: one element is two words, low and high. WGSL has no portable 64-bit integers; op/i64.wgsl computes on the pairs.

// Four elements, in storage and in registers. One alias, since naga compares arrays by the spelling of their element.
alias I64x4 = array<vec2<u32>, 4>;

fn i64_get(word: vec2<u32>, lane: u32) -> vec2<u32> { return word; }
fn i64_unpack(quad: I64x4) -> I64x4 { return quad; }
fn i64_pack(v: I64x4) -> I64x4 { return v; }
fn i64_word(v: I64x4) -> vec2<u32> { return v[0]; }
