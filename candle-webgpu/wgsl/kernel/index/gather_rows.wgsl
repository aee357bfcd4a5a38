// y[a, i, :] = src[a, ids[i], :] for rows of whole quads (an embedding lookup), or 0 where the id means "no element"; as bits. A thread
// owns a quad of y.

// slots: as it stands this file gathers 32-bit elements by u32 ids.
alias SRC = vec4<u32>;
alias SRCL = vec4<u32>;
alias IDS = u32;
alias Y = vec4<u32>;
alias YL = vec4<u32>;
fn src_get4(at4: u32) -> SRCL { return src[at4]; }
fn ids_get(i: u32) -> u32 { return ids[i]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn id_get(at: u32) -> vec2<u32> { return vec2<u32>(ids_get(at), 0u); }
fn id_is_none(id: vec2<u32>) -> bool { return id.x == 0xffffffffu; }
fn id_is_within(id: vec2<u32>, size: u32) -> bool { return id.y == 0u && id.x < size; }
// end slots

struct Params {
    n: u32, // quads of y
    row: u32, // quads of a row
    count: u32, // of ids
    ids_offset: u32,
    ids_step: u32,
    src_offset: u32, // in quads, as the strides of src are
    src_outer: u32,
    src_step: u32,
    size: u32,
    op: u32,
    first: u32, // first index that the binding of src holds; other dispatches have the others
    shown: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> src: array<SRC>;
@group(0) @binding(2) var<storage, read> ids: array<IDS>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
@group(0) @binding(4) var<storage, read_write> fault: Fault;
override WORKGROUP: u32 = 128u;

// Keeps the first index out of range for the host.
struct Fault { count: atomic<u32>, op: u32, index_low: u32, index_high: u32, size: u32 }

fn report(id: vec2<u32>) {
    if atomicAdd(&fault.count, 1u) == 0u {
        fault.op = p.op;
        fault.index_low = id.x;
        fault.index_high = id.y;
        fault.size = p.size;
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = gid.x + gid.y * groups.x * WORKGROUP;
    if q >= p.n { return; }
    let row = q / p.row;
    let a = row / p.count;
    let id = id_get(p.ids_offset + (row - a * p.count) * p.ids_step);
    var v = SRCL();
    if id_is_within(id, p.size) {
        // Another dispatch has the rows that this binding of src does not hold.
        let index = id.x - p.first;
        if index >= p.shown { return; }
        v = src_get4(p.src_offset + a * p.src_outer + index * p.src_step + (q - row * p.row));
    } else if !id_is_none(id) {
        report(id);
    }
    y_quad_put(q, v);
}
