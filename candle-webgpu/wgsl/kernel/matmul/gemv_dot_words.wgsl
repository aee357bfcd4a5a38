// Loads four elements of a row of a of gemv_dot one by one.

// slots: stand-ins for what gemv_dot.wgsl and its linker provide.
struct Params { a_k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
fn a_get(i: u32) -> f32 { return a[i]; }
// end slots

fn a_four(row: u32, k: u32, first: bool) -> vec4<f32> {
    let at = row + k * p.a_k;
    return vec4<f32>(a_get(at), a_get(at + p.a_k), a_get(at + 2u * p.a_k), a_get(at + 3u * p.a_k));
}
