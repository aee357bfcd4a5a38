// x_at(i): the place of logical element i of a strided view. The digits of i in the mixed radix of the dims, times the strides.

// slots: the parameters of a strided operand.
struct Params { rank: u32, x_offset: u32, dims: array<vec4<u32>, 2>, x_strides: array<vec4<u32>, 2> }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

fn x_at(i: u32) -> u32 {
    var rest = i;
    var at = p.x_offset;
    for (var d = p.rank - 1u; d > 0u; d--) {
        let size = p.dims[d / 4u][d % 4u];
        let next = rest / size;
        at += (rest - next * size) * p.x_strides[d / 4u][d % 4u];
        rest = next;
    }
    return at + rest * p.x_strides[0][0];
}
