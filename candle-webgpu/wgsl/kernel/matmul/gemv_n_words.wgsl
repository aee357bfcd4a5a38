// Loads four columns of a row of b of gemv_n one by one. Columns past the edge repeat the last one.

// slots: stand-ins for what gemv_n.wgsl and its linker provide.
struct Params { n: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> b: array<f32>;
fn b_get(i: u32) -> f32 { return b[i]; }
// end slots

fn b_four(row: u32, n: u32) -> vec4<f32> {
    let n_max = vec4<u32>(p.n - 1u);
    let at = vec4<u32>(row) + min(vec4<u32>(n) + vec4<u32>(0u, 1u, 2u, 3u), n_max) * p.b_n;
    return vec4<f32>(b_get(at.x), b_get(at.y), b_get(at.z), b_get(at.w));
}
