// y[i] = value for n elements. A thread owns four adjacent elements of y.

// slots: as it stands this file is the 32-bit case.
alias Y = vec4<u32>;
alias YV = u32;
alias YL = vec4<u32>;
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn value() -> YV { return p.value.x; }
// end slots

struct Params { n: u32, pad: u32, value: vec2<u32> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q >= (p.n + 3u) / 4u { return; }
    let v = value();
    y_quad_put(q, YL(v, v, v, v));
}
