// y[i, :] = scale q[ids[i], :] + shift: the embedding lookup in a quantized matrix x. A thread owns a unit of 32 elements.

// slots: as it stands this file is the case of eight-bit q with one scale, to f32.
alias X = vec4<u32>;
alias Y = vec4<f32>;
alias YL = vec4<f32>;
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_unit(u: u32) -> Unit { return Unit(x[2u * u], x[2u * u + 1u], vec2<f32>(1.0), vec2<f32>()); }
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
// end slots

struct Params {
    units: u32, // units of y
    row: u32,   // units per row
    ids_offset: u32,
    ids_step: u32,
    size: u32,
    op: u32,
    first: u32, // the first row in the binding of x
    run: u32,   // rows in the binding of x; other dispatches handle the other ids
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
@group(0) @binding(4) var<storage, read_write> fault: Fault;
override WORKGROUP: u32 = 128u;

// The report of the first index out of range, which the host reads.
struct Fault { count: atomic<u32>, op: u32, index_low: u32, index_high: u32, size: u32 }

fn report(id: u32) {
    if atomicAdd(&fault.count, 1u) == 0u {
        fault.op = p.op;
        fault.index_low = id;
        fault.index_high = 0u;
        fault.size = p.size;
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let u = gid.x + gid.y * groups.x * WORKGROUP;
    if u >= p.units { return; }
    let id = ids[p.ids_offset + u / p.row * p.ids_step];
    if id >= p.size {
        report(id);
        return;
    }
    if id - p.first >= p.run { return; }
    let unit = w_unit((id - p.first) * p.row + u % p.row);
    for (var i = 0u; i < 4u; i++) {
        y_quad_put(8u * u + i, unit.scale.x * unit_four(unit.low[i]) + unit.shift.x);
        y_quad_put(8u * u + 4u + i, unit.scale.y * unit_four(unit.high[i]) + unit.shift.y);
    }
}
