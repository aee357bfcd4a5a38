// Where a transposed convolution reads x: a tap reaches position i from (i + padding - tap) / stride, if that is a whole number.

// slots: the parameters.
struct Params { stride: vec2<u32>, padding: vec2<u32>, dilation: vec2<u32> }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> {
    let at = i + p.padding - tap * p.dilation;
    let hit = (at < vec2<u32>(0x80000000u)) & (at % p.stride == vec2<u32>(0u));
    return select(vec2<u32>(0xffffffffu), at / p.stride, hit);
}
