// f64: one element is two words, low and high. WGSL has no f64; op/f64.wgsl computes on the pairs.

// Four elements, in storage and in registers. One alias, since naga compares arrays by the spelling of their element.
alias F64x4 = array<vec2<u32>, 4>;

fn f64_get(word: vec2<u32>, lane: u32) -> vec2<u32> { return word; }
fn f64_unpack(quad: F64x4) -> F64x4 { return quad; }
fn f64_pack(v: F64x4) -> F64x4 { return v; }
fn f64_word(v: F64x4) -> vec2<u32> { return v[0]; }
