// Four elements of a row with any stride; the linker renames it for k and v.

// slots: stands for what the kernels bring.
struct Params { inner_strides: vec4<u32> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<f32>;
fn q_get(i: u32) -> f32 { return q[i]; }
// end slots

// Elements c .. c + 4 of the row at `base`.
fn q_four(base: u32, c: u32) -> vec4<f32> {
    let step = p.inner_strides.x;
    let at = base + c * step;
    return vec4<f32>(q_get(at), q_get(at + step), q_get(at + 2u * step), q_get(at + 3u * step));
}
