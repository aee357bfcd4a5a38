// One step of a bitonic merge to runs of k: orders pairs at distance j, which lie in different blocks. A thread owns a pair.

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

// A stable sort: equal keys keep the order of their ids.
fn before(ka: K, ia: u32, kb: K, ib: u32) -> bool {
    return key_less(ka, kb) || (!key_less(kb, ka) && ia < ib);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let t = id.x + id.y * groups.x * WORKGROUP;
    if t >= p.items { return; }
    // Rows are padded to powers of two, so no pair crosses from one to the next.
    let a = 2u * t - (t & (p.j - 1u));
    let b = a + p.j;
    let up = ((a % p.padded) & p.k) == 0u;
    let ka = keys[a];
    let kb = keys[b];
    let ia = ids[a];
    let ib = ids[b];
    if before(kb, ib, ka, ia) == up {
        keys[a] = kb;
        keys[b] = ka;
        ids[a] = ib;
        ids[b] = ia;
    }
}
