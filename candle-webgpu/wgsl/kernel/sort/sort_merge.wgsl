// The last steps of a bitonic merge to runs of k, from a distance of half a block on. A workgroup owns a block.

// slots: as it stands this file sorts by 32-bit keys.
alias K = u32;
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
@group(0) @binding(1) var<storage, read_write> keys: array<K>;
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;
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
    let first = item * p.block;
    for (var t = lid; t < p.block; t += WORKGROUP) {
        block_keys[t] = keys[first + t];
        block_ids[t] = ids[first + t];
    }
    workgroupBarrier();
    let start = first % p.padded;
    for (var j = p.block / 2u; j > 0u; j = j / 2u) {
        exchange(lid, start, p.k, j);
        workgroupBarrier();
    }
    for (var t = lid; t < p.block; t += WORKGROUP) {
        keys[first + t] = block_keys[t];
        ids[first + t] = block_ids[t];
    }
}
