// Before an op: seen[slot] |= kinds of values in x (1: infinite, 2: NaN). After it: kinds that seen[slot] lacks go to the fault record
// with the op's number. A thread owns 16 words of x.

// slots: none; the parameters describe the dtype.
// end slots

struct Params {
    words: u32, // of x
    last: u32, // mask of the last word
    lanes: u32, // elements in a word; 0 for f64, whose elements have two
    infinity: u32, // bits of infinity; of f64, the high word
    slot: u32,
    behind: u32, // 1 after the op, 0 before
    number: u32, // of the op
    pad: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> seen: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;
override WORKGROUP: u32 = 128u;

const INFINITE = 1u;
const NAN = 2u;
const SPAN = 16u;
// Word of the fault record, and the greatest op number.
const FIRST = 5u;
const MOST = 0x3fffffffu;

fn kind(magnitude: u32, more: u32) -> u32 {
    if magnitude < p.infinity { return 0u; }
    // f8e4m3 has no infinity.
    return select(NAN, INFINITE, magnitude == p.infinity && more == 0u && p.lanes != 4u);
}

fn kinds(w: u32) -> u32 {
    let word = x[w] & select(0xffffffffu, p.last, w + 1u == p.words);
    if p.lanes == 0u {
        // The high word of an f64.
        if w % 2u == 0u { return 0u; }
        return kind(word & 0x7fffffffu, x[w - 1u]);
    }
    var found = 0u;
    let bits = 32u / p.lanes;
    let magnitude = 0xffffffffu >> (33u - bits);
    for (var lane = 0u; lane < p.lanes; lane++) {
        found |= kind((word >> (lane * bits)) & magnitude, 0u);
    }
    return found;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let first = (id.x + id.y * groups.x * WORKGROUP) * SPAN;
    if first >= p.words { return; }
    var found = 0u;
    for (var w = first; w < min(first + SPAN, p.words); w++) { found |= kinds(w); }
    if p.behind == 0u {
        if found != 0u { atomicOr(&seen[p.slot], found); }
        return;
    }
    found &= ~atomicLoad(&seen[p.slot]);
    // The maximum belongs to the first op.
    if found != 0u { atomicMax(&fault[FIRST], ((MOST - p.number) << 2u) | found); }
}
