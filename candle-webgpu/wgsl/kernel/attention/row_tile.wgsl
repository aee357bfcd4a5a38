// Which rows and keys a workgroup of block_mask, flash or flash_coop owns.

// slots: stand-ins for what the kernels and their linker bring.
struct Params {
    queries: u32, keys: u32, rows: u32, matrices: u32, row_tiles: u32, splits: u32, split_keys: u32,
    offsets: vec4<u32>, mask_strides: vec4<u32>, unit_rows: u32, block_tile: u32, block_unit: u32, block_matrix: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
fn block_bits(own: ptr<function, RowTile>, j: u32) -> u32 { return 3u; }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn seen(query: u32) -> u32 { return p.keys; }
// end slots

struct RowTile {
    matrix: u32,
    split: u32,
    row0: u32,
    end: u32,         // behind the last row
    first: u32,       // some row sees keys first .. last of the split
    last: u32,
    seen_by_all: u32, // all rows see the keys before this one
    block: u32,       // the first word of its block mask
    word_at: u32,     // the word of it that was read last
    word: u32,
}

// With a causal mask the last rows of each head take longest, so they start first.
fn row_tile(group: u32, tile_rows: u32) -> RowTile {
    let units = p.rows / p.unit_rows;
    let tile = group / p.splits / p.matrices;
    let unit = tile % units;
    let place = p.row_tiles / units - 1u - tile / units;
    var t: RowTile;
    t.matrix = group / p.splits % p.matrices;
    t.split = group % p.splits;
    t.row0 = unit * p.unit_rows + place * tile_rows;
    t.end = min(t.row0 + tile_rows, (unit + 1u) * p.unit_rows);
    let one_head = t.row0 / p.queries == (t.end - 1u) / p.queries;
    t.first = t.split * p.split_keys;
    t.last = min(t.first + p.split_keys, seen(select(p.queries - 1u, (t.end - 1u) % p.queries, one_head)));
    t.seen_by_all = seen(select(0u, t.row0 % p.queries, one_head));
    t.block = t.matrix * p.block_matrix + unit * p.block_unit + place * p.block_tile;
    t.word_at = 0xffffffffu;
    return t;
}

// Where the mask of a row starts.
fn mask_row(matrix: u32, row: u32) -> u32 {
    return p.offsets.w + matrix_at(matrix, p.mask_strides) + row_at(row, p.mask_strides);
}

// The first tile of keys from j on of which the mask leaves something visible; `last` or more if none.
fn next_visible(own: ptr<function, RowTile>, j: u32) -> u32 {
    var next = j;
    for (; next < (*own).last; next = next / 32u * 32u + 32u) {
        if (block_bits(own, next) & 1u) != 0u { break; }
    }
    return next;
}
