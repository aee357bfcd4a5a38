// unit(bits): a multiple of 2^-53 from [0, 1). finish(u): clamp(u * b + a, least, most).

// slots: stand-ins for op/f64.wgsl and the parameters.
alias YV = vec2<u32>;
struct Params { a: vec2<u32>, b: vec2<u32>, least: vec2<u32>, most: vec2<u32> }
@group(0) @binding(0) var<uniform> p: Params;
fn f64_zeros(m: YV) -> u32 { return 0u; }
fn f64_up(m: YV, zeros: u32) -> YV { return m; }
fn f64_round(sign: u32, exponent: i32, m: YV) -> YV { return m; }
fn badd(a: YV, b: YV) -> YV { return a + b; }
fn bmul(a: YV, b: YV) -> YV { return a * b; }
fn bminimum(a: YV, b: YV) -> YV { return min(a, b); }
fn bmaximum(a: YV, b: YV) -> YV { return max(a, b); }
// end slots

fn unit(bits: vec2<u32>) -> YV {
    let m = bits & vec2<u32>(0xfffff800u, 0xffffffffu);
    if (m.x | m.y) == 0u { return m; }
    let zeros = f64_zeros(m);
    return f64_round(0u, 1022i - i32(zeros), f64_up(m, zeros));
}
fn finish(u: YV) -> YV { return bminimum(bmaximum(badd(bmul(u, p.b), p.a), p.least), p.most); }
