// y[b, k, l] = x[b, l, k] of elements of 16 bits: as transpose.wgsl, two neighbours along l to a word of the tile. A workgroup owns
// TILE x TILE elements, which it reads along k and writes along l.

// slots: as it stands this file is its only case.
// end slots

struct Params {
    tiles: vec2<u32>, // along k and l
    batch: u32,
    rank: u32, // of the batch
    sizes: vec2<u32>, // k, l
    x_offset: u32,
    y_offset: u32,
    x_step: u32, // of l
    y_step: u32, // of k
    pads: vec2<u32>,
    dims: array<vec4<u32>, 2>,
    x_strides: array<vec4<u32>, 2>,
    y_strides: array<vec4<u32>, 2>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec2<u32>>;
override WORKGROUP: u32 = 128u;
const TILE = 64u;
var<workgroup> tile: array<u32, 33u * TILE + 2u>;

// The word of (k, l) and (k, l + 1): what neighbours write, and what they read, lies in different banks.
fn place(k: u32, l: u32) -> u32 { return k * 33u + k / 32u * 2u + l / 2u; }

// Places in x and y of element (0, 0) of matrix b of the batch.
fn starts(b: u32) -> vec2<u32> {
    var rest = b;
    var at = vec2<u32>(p.x_offset, p.y_offset);
    for (var d = p.rank; d > 0u; d--) {
        let i = (d - 1u) / 4u;
        let j = (d - 1u) % 4u;
        let next = rest / p.dims[i][j];
        at += (rest - next * p.dims[i][j]) * vec2<u32>(p.x_strides[i][j], p.y_strides[i][j]);
        rest = next;
    }
    return at;
}

// Four elements along k of the rows l and l + 1.
fn load(start: u32, k: u32, l: u32) -> vec4<u32> {
    let at = start + min(k, p.sizes.x - 4u) + min(l, p.sizes.y - 2u) * p.x_step;
    return vec4<u32>(x[at / 4u], x[(at + p.x_step) / 4u]);
}

fn keep(v: vec4<u32>, k: u32, l: u32) {
    let at = place(k, l);
    tile[at] = (v.x & 0xffffu) | (v.z << 16u);
    tile[at + 33u] = (v.x >> 16u) | (v.z & 0xffff0000u);
    tile[at + 66u] = (v.y & 0xffffu) | (v.w << 16u);
    tile[at + 99u] = (v.y >> 16u) | (v.w & 0xffff0000u);
}

fn put(start: u32, first: vec2<u32>, k: u32, l: u32) {
    let at = first + vec2<u32>(k, l);
    if at.x >= p.sizes.x || at.y >= p.sizes.y { return; }
    let i = place(k, l);
    y[(start + at.x * p.y_step + at.y) / 4u] = vec2<u32>(tile[i], tile[i + 1u]);
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let group = id.y * groups.x + id.x;
    let b = group / (p.tiles.x * p.tiles.y);
    if b >= p.batch { return; }
    let in_batch = group - b * p.tiles.x * p.tiles.y;
    let first = vec2<u32>(in_batch / p.tiles.y, in_batch % p.tiles.y) * TILE;
    let start = starts(b);
    // Sixteen threads along, and eight across.
    let along = thread % 16u * 4u;
    let across = thread / 16u;
    let v0 = load(start.x, first.x + along, first.y + across * 2u);
    let v1 = load(start.x, first.x + along, first.y + across * 2u + 16u);
    let v2 = load(start.x, first.x + along, first.y + across * 2u + 32u);
    let v3 = load(start.x, first.x + along, first.y + across * 2u + 48u);
    keep(v0, along, across * 2u);
    keep(v1, along, across * 2u + 16u);
    keep(v2, along, across * 2u + 32u);
    keep(v3, along, across * 2u + 48u);
    workgroupBarrier();
    put(start.y, first, across, along);
    put(start.y, first, across + 8u, along);
    put(start.y, first, across + 16u, along);
    put(start.y, first, across + 24u, along);
    put(start.y, first, across + 32u, along);
    put(start.y, first, across + 40u, along);
    put(start.y, first, across + 48u, along);
    put(start.y, first, across + 56u, along);
}
