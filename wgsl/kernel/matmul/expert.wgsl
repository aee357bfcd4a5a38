// The matrix that each product of a batch takes of a stack of `p.rows` of them: a mixture of experts. An id out of range
// takes the first matrix and is reported.

// slots: what gemv_k.wgsl brings.
struct Params { n: u32, k: u32, rows: u32, op: u32 }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

@group(0) @binding(4) var<storage, read> ids: array<u32>;
@group(0) @binding(5) var<storage, read_write> fault: Fault;

// The first index out of range is kept for the host.
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
