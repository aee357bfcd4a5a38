// x_piece(at) of scale_lines for a quantized x: a unit of 32 elements.

// slots: stand-ins for what scale_lines.wgsl and its linker provide.
const QUADS = 8u;
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_unit(u: u32) -> Unit { return Unit(vec4<u32>(u), vec4<u32>(), vec2<f32>(), vec2<f32>()); }
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
// end slots

fn x_piece(at: u32) -> array<vec4<f32>, QUADS> {
    let unit = w_unit(at / 32u);
    var piece: array<vec4<f32>, QUADS>;
    for (var i = 0u; i < 4u; i++) {
        piece[i] = unit.scale.x * unit_four(unit.low[i]) + unit.shift.x;
        piece[i + 4u] = unit.scale.y * unit_four(unit.high[i]) + unit.shift.y;
    }
    return piece;
}
