// Orders keys_a[t] and keys_b[t], or keys_b[n - 1 - t] if mirrored, with their ids: one step of merging runs that lie in two buffers, for
// rows larger than a binding. A thread owns a pair.

// slots: as it stands this file sorts by 32-bit keys.
alias K = u32;
fn key_less(a: K, b: K) -> bool { return a < b; }
// end slots

struct Params { n: u32, mirrored: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> keys_a: array<K>;
@group(0) @binding(2) var<storage, read_write> ids_a: array<u32>;
@group(0) @binding(3) var<storage, read_write> keys_b: array<K>;
@group(0) @binding(4) var<storage, read_write> ids_b: array<u32>;
override WORKGROUP: u32 = 256u;

// A stable sort: equal keys keep the order of their ids.
fn before(ka: K, ia: u32, kb: K, ib: u32) -> bool {
    return key_less(ka, kb) || (!key_less(kb, ka) && ia < ib);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let a = id.x + id.y * groups.x * WORKGROUP;
    if a >= p.n { return; }
    let b = select(a, p.n - 1u - a, p.mirrored != 0u);
    let ka = keys_a[a];
    let kb = keys_b[b];
    let ia = ids_a[a];
    let ib = ids_b[b];
    if before(kb, ib, ka, ia) {
        keys_a[a] = kb;
        keys_b[b] = ka;
        ids_a[a] = ib;
        ids_b[b] = ia;
    }
}
