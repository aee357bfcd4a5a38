// The scales of rows of add_norm, as scale_lines finds them: powers of two that scale the largest magnitude to at least 2^14.

// slots: stand-ins for what add_norm.wgsl and its linker provide.
struct Params { rows: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(5) var<storage, read_write> line_scales: array<LINE_SCALES>;
var<workgroup> partial: array<f32, 256>;
// end slots

alias LINE_SCALES = f32;

// The largest finite magnitude of four elements.
fn magnitude(v: vec4<f32>) -> f32 {
    let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
    let finite = bitcast<vec4<f32>>(select(bits, vec4<u32>(), bits >= vec4<u32>(0x7f800000u)));
    return max(max(finite.x, finite.y), max(finite.z, finite.w));
}

// Stores s[row] and returns 1 / s[row]. `most`: the largest finite magnitude of the thread's elements.
fn line_scale(thread: u32, thread_group: u32, row: u32, most: f32) -> f32 {
    let lane = thread % thread_group;
    partial[thread] = most;
    workgroupBarrier();
    for (var half = thread_group / 2u; half > 0u; half /= 2u) {
        if lane < half { partial[thread] = max(partial[thread], partial[thread + half]); }
        workgroupBarrier();
    }
    let exponent = max(bitcast<u32>(partial[thread - lane]) >> 23u, 15u) - 14u;
    if lane == 0u && row < p.rows { line_scales[row] = bitcast<f32>(exponent << 23u); }
    return bitcast<f32>((254u - exponent) << 23u);
}
