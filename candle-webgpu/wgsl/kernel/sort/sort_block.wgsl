// ids[row, :] = argsort of x[row, :] within blocks of a power of two: a bitonic sort in workgroup memory, ascending and descending in turn
// as the merge needs it. Padding past the row's end sorts last. A workgroup owns a block.

// slots: as it stands this file sorts non-negative f32.
alias X = f32;
alias K = u32;
fn x_get(i: u32) -> f32 { return x[i]; }
fn sort_key(v: f32) -> u32 { return bitcast<u32>(v); }
fn key_less(a: K, b: K) -> bool { return a < b; }
// end slots

struct Params {
    items: u32, // blocks or pairs to process
    length: u32, // elements of a row
    padded: u32, // the next power of two
    block: u32, // elements of a row that one workgroup sorts, a power of two
    k: u32, // length of sorted runs after the pass
    j: u32, // distance of a pair
    x_offset: u32,
    descending: u32,
    base: u32, // where this run begins in its row, for rows larger than a binding
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> keys: array<K>;
@group(0) @binding(3) var<storage, read_write> ids: array<u32>;
override WORKGROUP: u32 = 256u;
const BLOCK = 1024u;
var<workgroup> block_keys: array<K, BLOCK>;
var<workgroup> block_ids: array<u32, BLOCK>;

// A stable sort: equal keys keep the order of their ids.
fn before(ka: K, ia: u32, kb: K, ib: u32) -> bool {
    return key_less(ka, kb) || (!key_less(kb, ka) && ia < ib);
}

// Orders all pairs at distance j of the block that begins at `start` in its row.
fn exchange(lid: u32, start: u32, k: u32, j: u32) {
    for (var t = lid; t < p.block / 2u; t += WORKGROUP) {
        let a = 2u * t - (t & (j - 1u));
        let b = a + j;
        let up = ((start + a) & k) == 0u;
        let ka = block_keys[a];
        let kb = block_keys[b];
        let ia = block_ids[a];
        let ib = block_ids[b];
        if before(kb, ib, ka, ia) == up {
            block_keys[a] = kb;
            block_keys[b] = ka;
            block_ids[a] = ib;
            block_ids[b] = ia;
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) lid: u32,
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let item = wid.y * groups.x + wid.x;
    if item >= p.items { return; }
    let blocks = p.padded / p.block;
    let row = item / blocks;
    let start = (item - row * blocks) * p.block;
    for (var t = lid; t < p.block; t += WORKGROUP) {
        let i = p.base + start + t;
        var key = ~K();
        if i < p.length {
            key = sort_key(x_get(p.x_offset + row * p.length + start + t));
            if p.descending != 0u { key = ~key; }
        }
        block_keys[t] = key;
        block_ids[t] = select(0xffffffffu, i, i < p.length);
    }
    workgroupBarrier();
    for (var k = 2u; k <= p.block; k = k * 2u) {
        for (var j = k / 2u; j > 0u; j = j / 2u) {
            exchange(lid, start, k, j);
            workgroupBarrier();
        }
    }
    // A row of one block is done: ids are stored without the padding, and keys are not needed.
    for (var t = lid; t < p.block; t += WORKGROUP) {
        if blocks > 1u {
            keys[row * p.padded + start + t] = block_keys[t];
            ids[row * p.padded + start + t] = block_ids[t];
        } else if t < p.length {
            ids[row * p.length + t] = block_ids[t];
        }
    }
}
