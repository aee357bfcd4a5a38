// Operators on f32 for results of 16 bits. WGSL's exp2, off by at most 3 + 2 |v| ULP for v <= 0, is exact enough for these, and the
// functions of f32.wgsl would make memory-bound kernels compute-bound.

// 1 / (1 + e^-v), where v is w ln(2).
fn f32_short_sigmoid(w: f32) -> f32 {
    let e = exp2(-abs(w));
    let s = 1.0 / (1.0 + e);
    return select(e * s, s, w >= 0.0);
}

fn usigmoid_short(v: f32) -> f32 { return f32_short_sigmoid(v * 1.442695); }
fn usilu_short(v: f32) -> f32 { return v * f32_short_sigmoid(v * 1.442695); }
// (1 + tanh(u)) / 2 = 1 / (1 + e^-2u).
fn ugelu_short(v: f32) -> f32 {
    return v * f32_short_sigmoid(v * fma(v * v, 0.10294324, 2.3022082));
}
