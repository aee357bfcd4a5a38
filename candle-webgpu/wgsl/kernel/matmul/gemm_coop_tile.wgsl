// Where a tile of gemm_coop lies.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
struct Params { groups: u32, rows: u32 }
@group(0) @binding(0) var<uniform> p: Params;
const BM = 128u;
const OWN = 128u;
// end slots

const BAND = 8u; // tiles along m that advance along n together, to share columns of b in the cache

// The first row and column of a tile.
fn tile_at(tile: u32) -> vec2<u32> {
    let band = BAND * (p.groups / p.rows);
    let above = tile / band * BAND;
    let high = min(BAND, p.rows - above);
    return vec2<u32>((above + tile % band % high) * BM, tile % band / high * OWN);
}
