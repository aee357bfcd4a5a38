// The part of the results that a workgroup owns: columns of one of up to three projections.

// slots: stand-ins for what the kernel provides.
struct Params { starts: vec4<u32>, products: array<vec4<u32>, 3> }
@group(0) @binding(0) var<uniform> p: Params;
struct Place { which: u32, group: u32, n: u32, start: u32, stride: u32 }
// end slots

fn place(group: u32) -> Place {
    // A surplus workgroup of a two-dimensional grid owns no columns.
    let which = u32(group >= p.starts.y) + u32(group >= p.starts.z);
    let product = p.products[which];
    return Place(which, group - p.starts[which], product.y, product.z, product.w);
}
