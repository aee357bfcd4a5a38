// y[at(i)] = x[at(i)]: a copy into existing memory; rows of x and y are whole quads. A thread owns four adjacent elements.

// slots: as it stands this file is the 32-bit, contiguous case.
alias X = vec4<u32>;
alias Y = vec4<u32>;
fn x_at(i: u32) -> u32 { return p.x_offset + i; }
fn y_at(i: u32) -> u32 { return p.y_offset + i; }
// end slots

struct Params {
    n: u32,
    rank: u32,
    x_offset: u32,
    y_offset: u32,
    pad: vec4<u32>,
    dims: array<vec4<u32>, 2>,
    x_strides: array<vec4<u32>, 2>,
    y_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * WORKGROUP;
    if i >= p.n / 4u { return; }
    y[y_at(i * 4u) / 4u] = x[x_at(i * 4u) / 4u];
}
