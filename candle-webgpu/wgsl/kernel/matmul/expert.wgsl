// Mixture of experts: selects a row's matrix from a stack of `p.rows` by its expert id. An id out of range selects the first
// matrix and is reported.

// slots: stand-ins for what gemv_k.wgsl provides.
struct Params { n: u32, k: u32, rows: u32, op: u32 }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

@group(0) @binding(4) var<storage, read> ids: array<u32>;
@group(0) @binding(5) var<storage, read_write> fault: Fault;

// The report of the first index out of range, which the host reads.
struct Fault { count: atomic<u32>, op: u32, index_low: u32, index_high: u32, size: u32 }

fn b_start(batch: u32) -> u32 {
    let id = ids[batch];
    if id < p.rows { return id * p.n * p.k; }
    if atomicAdd(&fault.count, 1u) == 0u {
        fault.op = p.op;
        fault.index_low = id;
        fault.index_high = 0u;
        fault.size = p.rows;
    }
    return 0u;
}
