// Units of reduce_row: quads of a contiguous row.

// slots: the f32 sum.
alias XV = f32;
alias XL = vec4<f32>;
alias Acc = f32;
@group(0) @binding(1) var<storage, read> x: array<XL>;
fn x_get4(at4: u32) -> XL { return x[at4]; }
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_next(a: Acc, b: Acc) -> Acc { return a + b; }
// end slots

alias Unit = XL;
const UNIT = 4u;
fn x_unit(base: u32, r: u32) -> Unit { return x_get4((base + r) / 4u); }
fn x_first(base: u32) -> XV { return x_get4(base / 4u)[0]; }
fn acc_unit(v: Unit, r: u32) -> Acc {
    let a = acc_next(acc_of(v[0], r), acc_of(v[1], r + 1u));
    return acc_next(a, acc_next(acc_of(v[2], r + 2u), acc_of(v[3], r + 3u)));
}
