// Units of reduce_row: single elements, with any strides.

// slots: the f32 sum of contiguous rows.
alias XV = f32;
alias Acc = f32;
@group(0) @binding(1) var<storage, read> x: array<f32>;
fn x_get(at: u32) -> XV { return x[at]; }
fn reduced_at(r: u32) -> u32 { return r; }
fn acc_of(v: XV, r: u32) -> Acc { return v; }
// end slots

alias Unit = XV;
const UNIT = 1u;
fn x_unit(base: u32, r: u32) -> Unit { return x_get(base + reduced_at(r)); }
fn x_first(base: u32) -> XV { return x_get(base); }
fn acc_unit(v: Unit, r: u32) -> Acc { return acc_of(v, r); }
