// out_put(at, count, v) stores v + bias from element `at` of a result on. v is rounded to the result's dtype first, as if it had been
// stored.

// slots: stand-ins for what the kernel and its linker provide.
struct Params { products: array<vec4<u32>, 3> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
fn bias_get(i: u32) -> f32 { return bias[i]; }
fn out_rounded(v: vec4<f32>) -> vec4<f32> { return v; }
fn out_keep(at: u32, count: u32, v: vec4<f32>) { out[at / 4u] = v; }
// end slots

fn out_put(at: u32, count: u32, v: vec4<f32>) {
    let i = (vec4<u32>(at) + vec4<u32>(0u, 1u, 2u, 3u)) % p.products[0].y;
    out_keep(at, count, out_rounded(v) + vec4<f32>(bias_get(i.x), bias_get(i.y), bias_get(i.z), bias_get(i.w)));
}
