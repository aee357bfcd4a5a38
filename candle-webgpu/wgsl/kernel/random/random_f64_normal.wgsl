// draw(bits): two normally distributed numbers by Box and Muller, from a radius from (0, 1] and an angle.

// slots: stand-ins for op/f64.wgsl and random_f64_finish.wgsl.
alias YV = vec2<u32>;
struct Turn { quarter: u32 }
fn unit(bits: vec2<u32>) -> YV { return bits; }
fn badd(a: YV, b: YV) -> YV { return a + b; }
fn bmul(a: YV, b: YV) -> YV { return a * b; }
fn ulog(v: YV) -> YV { return v; }
fn uabs(v: YV) -> YV { return v; }
fn usqrt(v: YV) -> YV { return v; }
fn f64_scaled(v: YV, n: i32) -> YV { return v; }
fn f64_turn(v: YV) -> Turn { return Turn(v.x); }
fn f64_sin_quarter(turn: Turn, quarter: u32) -> YV { return YV(turn.quarter, quarter); }
// end slots

fn draw(bits: vec4<u32>) -> array<YV, 2> {
    let u = badd(unit(bits.xy), vec2<u32>(0u, 0x3ca00000u));
    let radius = usqrt(uabs(f64_scaled(ulog(u), 1i)));
    let angle = bmul(unit(bits.zw), vec2<u32>(0x54442d18u, 0x401921fbu));
    let turn = f64_turn(angle);
    let cosine = f64_sin_quarter(turn, turn.quarter + 1u);
    return array<YV, 2>(bmul(radius, cosine), bmul(radius, f64_sin_quarter(turn, turn.quarter)));
}
