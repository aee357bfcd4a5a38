// dst[.., ids[.., i, ..], ..] = or += src[.., i, ..] for i in order; ids that mean "no element" are skipped. A thread owns a column of
// ids, so that the order of equal ids, and with it the result, is the same on every adapter.

// slots: as it stands this file sets 32-bit elements by u32 ids.
alias DST = u32;
alias SRC = u32;
alias SRCV = u32;
alias IDS = u32;
fn src_get(i: u32) -> SRCV { return src[i]; }
fn ids_get(i: u32) -> u32 { return ids[i]; }
fn put(at: u32, v: SRCV) { dst[at] = v; }
fn id_get(at: u32) -> vec2<u32> { return vec2<u32>(ids_get(at), 0u); }
fn id_is_none(id: vec2<u32>) -> bool { return id.x == 0xffffffffu; }
fn id_is_within(id: vec2<u32>, size: u32) -> bool { return id.y == 0u && id.x < size; }
// end slots

struct Params {
    n: u32, // columns
    rank: u32,
    length: u32, // of a column
    size: u32, // size of the dim that ids index
    dst_offset: u32,
    ids_offset: u32,
    src_offset: u32,
    dst_step: u32, // strides along the indexed dim
    ids_step: u32,
    src_step: u32,
    op: u32,
    first: u32, // first index that the binding of dst holds; other dispatches have the others
    shown: u32,
    pad0: u32,
    pad1: vec2<u32>,
    dims: array<vec4<u32>, 2>,
    dst_strides: array<vec4<u32>, 2>,
    ids_strides: array<vec4<u32>, 2>,
    src_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> dst: array<DST>;
@group(0) @binding(2) var<storage, read> ids: array<IDS>;
@group(0) @binding(3) var<storage, read> src: array<SRC>;
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
    let column = gid.x + gid.y * groups.x * WORKGROUP;
    if column >= p.n { return; }
    var rest = column;
    var dst_at = p.dst_offset;
    var ids_at = p.ids_offset;
    var src_at = p.src_offset;
    for (var k = p.rank; k > 0u; k--) {
        let d = k - 1u;
        let size = p.dims[d / 4u][d % 4u];
        let next = rest / size;
        let digit = rest - next * size;
        dst_at += digit * p.dst_strides[d / 4u][d % 4u];
        ids_at += digit * p.ids_strides[d / 4u][d % 4u];
        src_at += digit * p.src_strides[d / 4u][d % 4u];
        rest = next;
    }
    for (var i = 0u; i < p.length; i++) {
        let id = id_get(ids_at + i * p.ids_step);
        if id_is_within(id, p.size) {
            let index = id.x - p.first;
            if index < p.shown { put(dst_at + index * p.dst_step, src_get(src_at + i * p.src_step)); }
        } else if !id_is_none(id) {
            report(id);
        }
    }
}
