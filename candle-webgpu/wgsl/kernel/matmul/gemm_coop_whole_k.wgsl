// Each workgroup of gemm_coop has the whole k of a tile.

// slots: stand-ins for what gemm_coop.wgsl provides.
struct Params { k: u32, groups: u32 }
@group(0) @binding(0) var<uniform> p: Params;
struct Slice { batch: u32, tile: u32, first: u32, depth: u32, part: u32 }
// end slots

fn slice_of(group: u32) -> Slice { return Slice(group / p.groups, group % p.groups, 0u, p.k, 0u); }
fn keep_part(part: u32, row: u32, col: u32, mine: u32, lane: u32) {}
