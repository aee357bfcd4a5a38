// Stores the scaled lines of scale_lines.

// slots: stand-ins for what scale_lines.wgsl and its linker provide.
alias YL = vec4<f32>;
const EACH = 4u;
const QUADS = 1u;
const WORKGROUP = 128u;
const TEAMS = 1u;
const KNOWN = 0u;
struct Params { k: u32, x_k: u32, y_line: u32, y_k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<private> piece: array<vec4<f32>, QUADS>;
fn piece_at(j: u32) -> u32 { return 4u * j; }
fn quad_at(q: u32) -> u32 { return 0u; }
fn x_piece(at: u32) -> array<vec4<f32>, QUADS> { return array<vec4<f32>, QUADS>(); }
fn y_quad_put(q: u32, v: YL) {}
// end slots

// Backwards, since the last piece is still in registers if it was read for the scales.
fn store(line: u32, source: u32, own: u32, by: vec4<f32>) {
    let pieces = p.k / EACH;
    let threads = WORKGROUP / TEAMS; // of a line
    for (var left = (pieces + threads - 1u - own) / threads; left > 0u; left--) {
        let k = piece_at(own + (left - 1u) * threads);
        if KNOWN == 1u || own + left * threads < pieces { piece = x_piece(source + k * p.x_k); }
        let to = line * p.y_line + k * p.y_k;
        for (var q = 0u; q < QUADS; q++) { y_quad_put((to + quad_at(q)) / 4u, piece[q] * by); } // unroll
    }
}
