// y[.., i, ..] = src[.., ids[.., i, ..], ..], or 0 where the id means "no element"; as bits. y has the dims of ids; ids of stride 0 along
// the other dims make it an index_select. A thread owns four adjacent elements of y.

// slots: as it stands this file gathers 32-bit elements by u32 ids.
alias SRC = u32;
alias SRCV = u32;
alias IDS = u32;
alias Y = vec4<u32>;
alias YL = vec4<u32>;
fn src_get(i: u32) -> SRCV { return src[i]; }
fn ids_get(i: u32) -> u32 { return ids[i]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn y_quad_get(q: u32) -> YL { return y[q]; }
fn id_get(at: u32) -> vec2<u32> { return vec2<u32>(ids_get(at), 0u); }
fn id_is_none(id: vec2<u32>) -> bool { return id.x == 0xffffffffu; }
fn id_is_within(id: vec2<u32>, size: u32) -> bool { return id.y == 0u && id.x < size; }
// end slots

struct Params {
    n: u32,
    rank: u32,
    src_offset: u32,
    ids_offset: u32,
    size: u32, // size of the dim that ids index
    step: u32, // stride of src along that dim, whose entry in src_strides is 0
    op: u32,
    first: u32, // first index that the binding of src holds; other dispatches have the others
    shown: u32,
    pad0: u32,
    pad1: vec2<u32>,
    dims: array<vec4<u32>, 2>,
    src_strides: array<vec4<u32>, 2>,
    ids_strides: array<vec4<u32>, 2>,
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

// `old` if the binding of src does not hold the index: then another dispatch does.
fn gathered(i: u32, old: SRCV) -> SRCV {
    var rest = min(i, p.n - 1u);
    var src_at = p.src_offset;
    var ids_at = p.ids_offset;
    for (var k = p.rank; k > 0u; k--) {
        let d = k - 1u;
        let size = p.dims[d / 4u][d % 4u];
        let next = rest / size;
        let digit = rest - next * size;
        src_at += digit * p.src_strides[d / 4u][d % 4u];
        ids_at += digit * p.ids_strides[d / 4u][d % 4u];
        rest = next;
    }
    let id = id_get(ids_at);
    if id_is_none(id) { return SRCV(); }
    if !id_is_within(id, p.size) {
        report(id);
        return SRCV();
    }
    let index = id.x - p.first;
    if index >= p.shown { return old; }
    return src_get(src_at + index * p.step);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q >= (p.n + 3u) / 4u { return; }
    let i = q * 4u;
    var v = YL();
    if p.shown < p.size { v = y_quad_get(q); }
    y_quad_put(q, YL(gathered(i, v[0]), gathered(i + 1u, v[1]), gathered(i + 2u, v[2]), gathered(i + 3u, v[3])));
}
