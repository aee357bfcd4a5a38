// What the attention kernels share: scores of four neighbouring keys, and how a row of y is finished.

// slots: stands for what the kernels bring.
struct Params { keys: u32, columns: u32, splits: u32, cap: f32, nan: f32, steps: vec4<u32> }
@group(0) @binding(0) var<uniform> p: Params;
override MASKED: u32 = 0u;
override PARTS: u32 = 0u;
fn masked(s: vec4<f32>, at: vec4<u32>) -> vec4<f32> { return s; }
fn utanh(x: f32) -> f32 { return tanh(x); }
// end slots

// Of the products with keys j..j+4, the softcap and the mask, whose row starts at `mask_at`.
fn scores(products: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> {
    return masked_four(capped(products), mask_at, j);
}

fn capped(s: vec4<f32>) -> vec4<f32> {
    if p.cap == 1.0 { return s; }
    return p.cap * vec4<f32>(utanh(s.x), utanh(s.y), utanh(s.z), utanh(s.w));
}

// Past the last key the mask of the last one: no branches, so that all are loaded at a time.
fn masked_four(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> {
    if MASKED == 0u { return s; }
    let at = vec4<u32>(mask_at) + min(vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.keys - 1u)) * p.steps.w;
    return masked(s, at);
}

// The quad of y where a row starts.
fn place(row: u32, split: u32) -> u32 {
    if PARTS == 1u { return (row * p.splits + split) * (p.columns / 4u + 1u); }
    return row * (p.columns / 4u);
}

// A row without weights has no mean.
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> {
    if PARTS == 1u { return sum; }
    if weights == 0.0 { return vec4<f32>(p.nan); }
    return sum / weights;
}
