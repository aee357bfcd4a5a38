// Tiles of gemm_coop as vectors in workgroup memory.

// slots: stand-ins for what gemm_coop.wgsl provides.
enable f16;
var<workgroup> a_tile: array<Cell, 8>;
var<workgroup> b_tile: array<Cell, 8>;
var<workgroup> y_tile: array<YCell, 8>;
// end slots

alias Cell = vec4<f16>;
alias YCell = vec4<f32>;
const CELL = 4u;
fn a_put(at: u32, v: vec4<f16>) { a_tile[at] = v; }
fn b_put(at: u32, v: vec4<f16>) { b_tile[at] = v; }
fn y_quad(at: u32) -> vec4<f32> { return y_tile[at]; }
