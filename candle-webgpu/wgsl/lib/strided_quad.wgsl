// x_quad(q): four elements of a strided view. One chain of divisions if they lie in one row; past the end, the last element.

// slots: an f32 operand with x_at and x_get.
alias XL = vec4<f32>;
struct Params { n: u32, rank: u32, x_offset: u32, dims: array<vec4<u32>, 2>, x_strides: array<vec4<u32>, 2> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
fn x_at(i: u32) -> u32 { return p.x_offset + i; }
fn x_get(i: u32) -> f32 { return x[i]; }
// end slots

fn x_quad(q: u32) -> XL {
    let i = q * 4u;
    let d = p.rank - 1u;
    let size = p.dims[d / 4u][d % 4u];
    if i % size + 4u <= size {
        let at = x_at(i);
        let s = p.x_strides[d / 4u][d % 4u];
        return XL(x_get(at), x_get(at + s), x_get(at + 2u * s), x_get(at + 3u * s));
    }
    let last = p.n - 1u;
    return XL(x_get(x_at(i)), x_get(x_at(min(i + 1u, last))), x_get(x_at(min(i + 2u, last))), x_get(x_at(min(i + 3u, last))));
}
