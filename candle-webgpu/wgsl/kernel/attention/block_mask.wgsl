// The block mask of a mask (FlexAttention's term): two bits for each row tile of flash or flash_coop and each 32 keys, whether the mask leaves
// a score visible, and whether it changes one. A split of 512 keys is a word of them.

// slots: as it stands this file is the case of an added mask in f32.
alias MASK = f32;
alias Y = u32;
struct RowTile { matrix: u32, split: u32, row0: u32, end: u32, first: u32, last: u32, seen_by_all: u32, block: u32 }
fn row_tile(group: u32, tile_rows: u32) -> RowTile { return RowTile(); }
fn mask_row(matrix: u32, row: u32) -> u32 { return matrix + row; }
fn mask_bits(at: vec4<u32>) -> u32 { return u32(any(vec4<f32>(mask[at.x]) != vec4<f32>(p.neg_inf))); }
fn mask_place(mask_at: u32, j: u32) -> vec4<u32> { return vec4<u32>(mask_at + j); }
struct Params { matrices: u32, row_tiles: u32, splits: u32, neg_inf: f32 }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> mask: array<MASK>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u;
override TILE_ROWS: u32 = 64u; // of the attention

var<workgroup> word: atomic<u32>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    if group >= p.splits * p.row_tiles * p.matrices { return; }
    let own = row_tile(group, TILE_ROWS);
    if thread == 0u { atomicStore(&word, 0u); }
    workgroupBarrier();
    var bits = 0u;
    // Eight threads share a row. Keys behind the last repeat it, so all loads are independent.
    for (var row = own.row0 + thread / 8u; row < own.end; row += WORKGROUP / 8u) {
        let mask_at = mask_row(own.matrix, row);
        for (var n = 0u; n < 16u; n++) { // unroll
            bits |= mask_bits(mask_place(mask_at, own.first + n * 32u + thread % 8u * 4u)) << (n * 2u);
        }
    }
    atomicOr(&word, bits);
    workgroupBarrier();
    if thread == 0u { y[own.block + own.split] = atomicLoad(&word); }
}
