// Loads a quad of an operand of gemm element by element. `at` is the row and the k of its first element, at `start` in the buffer.

// slots: stand-ins for what gemm.wgsl and its linker provide.
struct Params { m: u32, k: u32, a_m: u32, a_k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
override A_ALONG_K: u32 = 1u;
fn a_get(i: u32) -> f32 { return a[i]; }
// end slots

const A_UNIT = 1u;
fn a_four(start: u32, at: vec2<u32>) -> vec4<f32> {
    let step = select(p.a_m, p.a_k, A_ALONG_K == 1u);
    let left = select(p.m - at.x, p.k - at.y, A_ALONG_K == 1u);
    var v = vec4<f32>(a_get(start), 0.0, 0.0, 0.0);
    if left > 1u { v.y = a_get(start + step); }
    if left > 2u { v.z = a_get(start + 2u * step); }
    if left > 3u { v.w = a_get(start + 3u * step); }
    return v;
}
