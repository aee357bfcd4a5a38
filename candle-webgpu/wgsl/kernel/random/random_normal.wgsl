// draw(bits): four normally distributed numbers by Box and Muller. Each pair is a radius from (0, 1] and an angle.

// slots: a generator's numbers from [0, 1), and functions of op/f32.wgsl.
fn unit(bits: vec4<u32>) -> vec4<f32> { return vec4<f32>(bits >> vec4<u32>(8u)) * 5.9604645e-8; }
fn ulog(v: f32) -> f32 { return log(v); }
fn ucos(v: f32) -> f32 { return cos(v); }
fn usin(v: f32) -> f32 { return sin(v); }
// end slots

fn draw(bits: vec4<u32>) -> vec4<f32> {
    let u = unit(bits);
    let a = sqrt(max(-2.0 * ulog(u.x + 5.9604645e-8), 0.0));
    let b = sqrt(max(-2.0 * ulog(u.z + 5.9604645e-8), 0.0));
    let angle = u.yw * 6.2831855;
    return vec4<f32>(a * ucos(angle.x), a * usin(angle.x), b * ucos(angle.y), b * usin(angle.y));
}
