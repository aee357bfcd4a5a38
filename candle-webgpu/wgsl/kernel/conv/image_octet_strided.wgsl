// eight(at, w): eight elements of x from `at` on, `stride.y` apart, the first in column w of a line.

// slots: stand-ins for gemm_coop_image.wgsl.
alias Octet = vec4<u32>;
struct More { stride: vec2<u32> }
struct Params { more: More }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
fn seen(w: u32, j: u32) -> u32 { return 0xffffffffu; }
// end slots

fn one(at: u32) -> u32 {
    return (b[min(bitcast<u32>(bitcast<i32>(at) >> 1u), arrayLength(&b) - 1u)] >> (at % 2u * 16u)) & 0xffffu;
}
fn two(at: u32, w: u32, j: u32) -> u32 {
    let step = p.more.stride.y;
    return (one(at + 2u * j * step) | one(at + (2u * j + 1u) * step) << 16u) & seen(w, j);
}
fn eight(at: u32, w: u32) -> Octet { return Octet(two(at, w, 0u), two(at, w, 1u), two(at, w, 2u), two(at, w, 3u)); }
