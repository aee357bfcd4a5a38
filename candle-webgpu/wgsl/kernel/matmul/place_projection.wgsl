// The part of the results that a workgroup of gemv_projections or gemv_dot owns: rows of one of up to three projections of the same a.

// slots: stand-ins for what the kernels and their linker provide.
const ROWS = 1u;
override ONE_BLOCK: u32 = 0u;
struct Params { batch: u32, a_offset: u32, starts: vec4<u32>, products: array<vec4<u32>, 3> }
@group(0) @binding(0) var<uniform> p: Params;
struct Matrix { start: u32, n: u32, stride: u32 }
struct Place { which: u32, batch: u32, m0: u32, group: u32, a: u32, w: Matrix }
// end slots

fn place(group: u32) -> Place {
    // A surplus workgroup of a two-dimensional grid owns no columns, or no rows.
    let which = u32(group >= p.starts.y) + u32(group >= p.starts.z);
    let product = p.products[which];
    var mine = group - p.starts[which];
    var m0 = 0u;
    if ONE_BLOCK == 0u && mine >= product.x {
        m0 = mine / product.x * ROWS;
        mine = mine % product.x;
    }
    return Place(which, 0u, m0, mine, p.a_offset, Matrix(product.z, product.y, product.w));
}
