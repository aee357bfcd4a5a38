// Where a transposed convolution reads x: a tap reaches position i from (i + padding - tap) / stride, if that is a whole number.

// slots: nothing.
// end slots

fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> { return i + padding; }
fn source(place: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> {
    let at = place - tap;
    let hit = (at < vec4<u32>(0x80000000u)) & (at % stride == vec4<u32>(0u));
    return select(vec4<u32>(0xffffffffu), at / stride, hit);
}
