// What all attention kernels do with q . k: softcap, mask; and how they finish a row of y.

// slots: stands for what the kernels bring.
struct Params {
    v_dim: u32, keys: u32, rows: u32, splits: u32, softcap: f32, nan: f32, inner_strides: vec4<u32>,
    y_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
override MASKED: u32 = 0u;
override PARTIAL: u32 = 0u;
fn masked(s: vec4<f32>, at: vec4<u32>) -> vec4<f32> { return s; }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn utanh(x: f32) -> f32 { return tanh(x); }
// end slots

// The scores with keys j .. j + 4 of a row whose mask starts at `mask_at`.
fn scores(dots: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> {
    return mask_scores(apply_softcap(dots), mask_at, j);
}

fn apply_softcap(s: vec4<f32>) -> vec4<f32> {
    if p.softcap == 1.0 { return s; }
    return p.softcap * vec4<f32>(utanh(s.x), utanh(s.y), utanh(s.z), utanh(s.w));
}

fn mask_scores(s: vec4<f32>, mask_at: u32, j: u32) -> vec4<f32> {
    if MASKED == 0u { return s; }
    return masked(s, mask_place(mask_at, j));
}

// Where the mask of keys j .. j + 4 lies. Keys past the last read the mask of the last one: without branches, the four loads overlap.
fn mask_place(mask_at: u32, j: u32) -> vec4<u32> {
    return vec4<u32>(mask_at) + min(vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.keys - 1u)) * p.inner_strides.w;
}

// The first quad of a row of y; a partial row has one more, for its maximum and its sum of weights.
fn y_row(matrix: u32, row: u32, split: u32) -> u32 {
    if PARTIAL == 1u { return ((matrix * p.rows + row) * p.splits + split) * (p.v_dim / 4u + 1u); }
    return matrix_at(matrix, p.y_strides) + row_at(row, p.y_strides);
}

// A row that sees no key is NaN.
fn finish(sum: vec4<f32>, weights: f32) -> vec4<f32> {
    if PARTIAL == 1u { return sum; }
    if weights == 0.0 { return vec4<f32>(p.nan); }
    return sum / weights;
}
