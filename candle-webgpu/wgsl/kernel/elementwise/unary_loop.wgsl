// each(v): op of four values in a loop, so that a long operator is inlined once instead of four times.

// slots: the identity of f64.
alias XL = array<vec2<u32>, 4>;
alias YL = array<vec2<u32>, 4>;
fn op(v: vec2<u32>) -> vec2<u32> { return v; }
// end slots

fn each(v: XL) -> YL {
    var u = v;
    var w: YL;
    for (var i = 0u; i < 4u; i++) { w[i] = op(u[i]); }
    return w;
}
