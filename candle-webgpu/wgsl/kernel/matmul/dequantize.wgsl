// y[i] = scale q[i] + shift: dequantizes x. A thread owns a unit of 32 elements.

// slots: as it stands this file is the case of eight-bit q with one scale, to f32.
alias X = vec4<u32>;
alias Y = vec4<f32>;
alias YL = vec4<f32>;
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_unit(u: u32) -> Unit { return Unit(x[2u * u], x[2u * u + 1u], vec2<f32>(1.0), vec2<f32>()); }
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
// end slots

struct Params { units: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let u = id.x + id.y * groups.x * WORKGROUP;
    if u >= p.units { return; }
    let unit = w_unit(u);
    for (var i = 0u; i < 4u; i++) {
        y_quad_put(8u * u + i, unit.scale.x * unit_four(unit.low[i]) + unit.shift.x);
        y_quad_put(8u * u + 4u + i, unit.scale.y * unit_four(unit.high[i]) + unit.shift.y);
    }
}
