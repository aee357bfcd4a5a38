// A view in the parameters of fused kernels.

// slots: declared by the kernel.
struct View { dims: vec4<u32>, strides: vec4<u32> }
// end slots

// The place of element i of a view, relative to its start.
fn walk(view: View, i: u32) -> u32 {
    let w = i / view.dims.w;
    let z = w / view.dims.z;
    let y = z / view.dims.y;
    let digits = vec4<u32>(y, z - y * view.dims.y, w - z * view.dims.z, i - w * view.dims.w);
    let at = digits * view.strides;
    return at.x + at.y + at.z + at.w;
}
