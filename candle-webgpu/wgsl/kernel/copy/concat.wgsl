// y_part[at(i)] = x_part[at(i)]: copies into existing memory, whose rows are whole quads. A workgroup owns a run of one part, a thread
// four adjacent elements.

// slots: as it stands this file copies two parts of 32-bit elements to one destination.
alias A = vec4<u32>;
alias B = vec4<u32>;
alias Y = vec4<u32>;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
fn move_quad(part: u32, source: u32, place: u32) {
    switch part {
        case 0u: { y[place] = a[source]; }
        default: { y[place] = b[source]; }
    }
}
// end slots

struct Part {
    first: u32, // workgroup
    n: u32, // elements
    offsets: vec2<u32>, // of x and y
    dims: vec4<u32>,
    x_strides: vec4<u32>,
    y_strides: vec4<u32>,
}
struct Params { parts: array<Part, 4> }
@group(0) @binding(0) var<uniform> p: Params;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let which = u32(group >= p.parts[1].first) + u32(group >= p.parts[2].first) + u32(group >= p.parts[3].first);
    let part = p.parts[which];
    let i = ((group - part.first) * WORKGROUP + thread) * 4u;
    if i >= part.n { return; }
    let w = i / part.dims.w;
    let z = w / part.dims.z;
    let y = z / part.dims.y;
    let at = vec4<u32>(y, z - y * part.dims.y, w - z * part.dims.z, i - w * part.dims.w);
    move_quad(which, (part.offsets.x + dot(at, part.x_strides)) / 4u, (part.offsets.y + dot(at, part.y_strides)) / 4u);
}
