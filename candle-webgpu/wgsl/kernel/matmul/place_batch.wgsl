// The part of y that a workgroup of gemv_k or gemv_dot owns: rows of one matmul of a batch.

// slots: stand-ins for what the kernels and their linker provide.
const ROWS = 1u;
override ONE_BLOCK: u32 = 0u;
struct Params {
    n: u32,
    batch: u32,
    groups: u32,
    a_offset: u32,
    b_offset: u32,
    b_n: u32,
    blocks: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
struct Matrix { start: u32, n: u32, stride: u32 }
struct Place { which: u32, batch: u32, m0: u32, group: u32, a: u32, w: Matrix }
fn bases(batch: u32) -> vec2<u32> { return vec2<u32>(p.a_offset, p.b_offset); }
fn b_start(batch: u32) -> u32 { return 0u; }
// end slots

fn place(group: u32) -> Place {
    // A surplus workgroup of a two-dimensional grid owns no columns.
    if ONE_BLOCK == 1u { return Place(0u, 0u, 0u, group, p.a_offset, Matrix(p.b_offset, p.n, p.b_n)); }
    var batch = 0u;
    var m0 = 0u;
    var mine = group;
    // Divisions take long: as long as the first loads.
    if group >= p.groups {
        let block = group / p.groups;
        batch = block / p.blocks;
        // A two-dimensional grid may have surplus workgroups.
        if batch >= p.batch { return Place(0u, batch, 0u, 0u, 0u, Matrix()); }
        m0 = block % p.blocks * ROWS;
        mine = group - block * p.groups;
    }
    let base = bases(batch);
    return Place(0u, batch, m0, mine, base.x, Matrix(base.y + b_start(batch), p.n, p.b_n));
}
