// a_eight(row, k): eight elements of a row from k on, one by one; 0 past the end of k.

// slots: stand-ins for what the kernel and its linker provide.
struct Eight { low: vec4<f32>, high: vec4<f32> }
struct Params { k: u32, a_k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
fn a_get(i: u32) -> f32 { return a[i]; }
// end slots

fn a_one(row: u32, k: u32) -> f32 {
    if k < p.k { return a_get(row + k * p.a_k); }
    return 0.0;
}
fn a_eight(row: u32, k: u32) -> Eight {
    return Eight(
        vec4<f32>(a_one(row, k), a_one(row, k + 1u), a_one(row, k + 2u), a_one(row, k + 3u)),
        vec4<f32>(a_one(row, k + 4u), a_one(row, k + 5u), a_one(row, k + 6u), a_one(row, k + 7u)),
    );
}
fn a_ahead(first: u32, row: u32) -> u32 { return 0u; }
