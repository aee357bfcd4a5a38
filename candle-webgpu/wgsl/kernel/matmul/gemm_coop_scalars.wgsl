// Tiles of gemm_coop as scalars in workgroup memory: Metal loads a matrix from memory of its scalar type, and naga 30 does not cast
// pointers to vectors.

// slots: stand-ins for what gemm_coop.wgsl provides.
enable f16;
var<workgroup> a_tile: array<Cell, 32>;
var<workgroup> b_tile: array<Cell, 32>;
var<workgroup> y_tile: array<YCell, 32>;
// end slots

alias Cell = f16;
alias YCell = f32;
const CELL = 1u;
fn a_put(at: u32, v: vec4<f16>) {
    a_tile[4u * at] = v.x;
    a_tile[4u * at + 1u] = v.y;
    a_tile[4u * at + 2u] = v.z;
    a_tile[4u * at + 3u] = v.w;
}
fn b_put(at: u32, v: vec4<f16>) {
    b_tile[4u * at] = v.x;
    b_tile[4u * at + 1u] = v.y;
    b_tile[4u * at + 2u] = v.z;
    b_tile[4u * at + 3u] = v.w;
}
fn y_quad(at: u32) -> vec4<f32> {
    return vec4<f32>(y_tile[4u * at], y_tile[4u * at + 1u], y_tile[4u * at + 2u], y_tile[4u * at + 3u]);
}
