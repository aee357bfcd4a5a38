// y[b, k, l] = x[b, l, k], where k and l are multiples of 4. A workgroup owns a tile of TILE_K x TILE_L elements, which it reads along k
// and writes along l.

// slots: as it stands this file is the 32-bit case.
alias X = vec4<u32>;
alias Y = vec4<u32>;
alias XV = u32;
alias XL = vec4<u32>;
alias YL = vec4<u32>;
fn x_get4(at4: u32) -> XL { return x[at4]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
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
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;
const TILE_K = 32u;
const TILE_L = 64u;
// Padded by one, so that neighbours along k lie in different banks.
const LINE = TILE_L + 1u;
var<workgroup> tile: array<XV, TILE_K * LINE>;

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

fn load(start: u32, k: u32, l: u32) -> XL {
    let near = min(l, p.sizes.y - 1u);
    return x_get4((start + near * p.x_step + min(k, p.sizes.x - 4u)) / 4u);
}

fn keep(v: XL, k: u32, l: u32) {
    tile[k * LINE + l] = v[0];
    tile[(k + 1u) * LINE + l] = v[1];
    tile[(k + 2u) * LINE + l] = v[2];
    tile[(k + 3u) * LINE + l] = v[3];
}

fn put(start: u32, first: vec2<u32>, k: u32, l: u32) {
    let at = first + vec2<u32>(k, l);
    if at.x >= p.sizes.x || at.y >= p.sizes.y { return; }
    let i = k * LINE + l;
    y_quad_put((start + at.x * p.y_step + at.y) / 4u, YL(tile[i], tile[i + 1u], tile[i + 2u], tile[i + 3u]));
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
    let first = vec2<u32>(in_batch / p.tiles.y * TILE_K, in_batch % p.tiles.y * TILE_L);
    let start = starts(b);
    // Eight threads along, and sixteen across.
    let along = thread % 8u * 4u;
    let across = thread / 8u;
    let v0 = load(start.x, first.x + along, first.y + across);
    let v1 = load(start.x, first.x + along, first.y + across + 16u);
    let v2 = load(start.x, first.x + along, first.y + across + 32u);
    let v3 = load(start.x, first.x + along, first.y + across + 48u);
    keep(v0, along, across);
    keep(v1, along, across + 16u);
    keep(v2, along, across + 32u);
    keep(v3, along, across + 48u);
    workgroupBarrier();
    put(start.y, first, across, along);
    put(start.y, first, across, along + 32u);
    put(start.y, first, across + 16u, along);
    put(start.y, first, across + 16u, along + 32u);
}
