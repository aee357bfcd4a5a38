// i64: one element is two words, low and high. WGSL has no portable 64-bit integers; op/i64.wgsl computes on the pairs.

// slots: stand-in for dtype/pair.wgsl.
alias PairX4 = array<vec2<u32>, 4>;
// end slots

fn i64_get(word: vec2<u32>, lane: u32) -> vec2<u32> { return word; }
fn i64_unpack(quad: PairX4) -> PairX4 { return quad; }
fn i64_pack(v: PairX4) -> PairX4 { return v; }
fn i64_word(v: PairX4) -> vec2<u32> { return v[0]; }
