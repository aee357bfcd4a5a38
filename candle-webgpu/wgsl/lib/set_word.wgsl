// Access `Set` of a dtype whose elements are whole words.

// slots: an f32 operand.
alias XV = f32;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
fn f32_get(word: f32, lane: u32) -> f32 { return word; }
fn badd(a: f32, b: f32) -> f32 { return a + b; }
// end slots

fn x_get(i: u32) -> XV { return f32_get(x[i], 0u); }
fn x_set(i: u32, v: XV) { x[i] = v; }
fn x_add(i: u32, v: XV) { x[i] = badd(x[i], v); }
