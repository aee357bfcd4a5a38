// The pieces of scale_lines for a quantized x: every fourth quad of a span of W_SPAN units of 32 elements. Four threads share a span, so that
// they store adjacent bytes.

// slots: stand-ins for what scale_lines.wgsl and its linker provide.
const W_SPAN = 1u;
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
struct Raw { q: u32 }
fn w_load(u: u32) -> Raw { return Raw(u); }
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    return Parts(vec4<u32>(r.q), vec4<u32>(u), vec2<i32>(), vec2<i32>(), vec2<f32>());
}
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
// end slots

const EACH = 8u * W_SPAN;
const QUADS = 2u * W_SPAN;
fn piece_at(j: u32) -> u32 { return j / 4u * 32u * W_SPAN + j % 4u * 4u; }
fn quad_at(q: u32) -> u32 { return 16u * q; }

fn x_piece(at: u32) -> array<vec4<f32>, QUADS> {
    let first = at / 32u;
    let i = at / 4u % 4u;
    let raw = w_load(first);
    var piece: array<vec4<f32>, QUADS>;
    for (var j = 0u; j < W_SPAN; j++) { // unroll
        let unit = w_unpack(raw, first, j);
        let scale = unit.factor.x * vec2<f32>(unit.scale);
        let shift = unit.factor.y * vec2<f32>(unit.shift);
        piece[2u * j] = scale.x * unit_four(unit.low[i]) + shift.x;
        piece[2u * j + 1u] = scale.y * unit_four(unit.high[i]) + shift.y;
    }
    return piece;
}
