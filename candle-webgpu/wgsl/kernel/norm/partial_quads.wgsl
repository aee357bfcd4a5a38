// Reads and writes of quads where rows start and end anywhere: lanes outside of the row first .. end are 0, and are not written. `x_*`
// reads a matrix; `alpha_*` reads a parameter with one element a column. The linker takes single functions of this file and renames them.

// slots: stands for what the kernels bring.
struct Params { x_offset: u32, alpha_offset: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> alpha: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
fn x_get(i: u32) -> f32 { return x[i]; }
fn alpha_get(i: u32) -> f32 { return alpha[i]; }
fn y_set(i: u32, v: f32) { y[i] = v; }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at] = v.x; }
// end slots

fn x_one(at: u32, first: u32, end: u32) -> f32 {
    if at >= first && at < end { return x_get(p.x_offset + at); }
    return 0.0;
}

fn alpha_one(at: u32, first: u32, end: u32) -> f32 {
    if at >= first && at < end { return alpha_get(p.alpha_offset + at - first); }
    return 0.0;
}

fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> {
    let at = q * 4u;
    return vec4<f32>(
        x_one(at, first, end), x_one(at + 1u, first, end),
        x_one(at + 2u, first, end), x_one(at + 3u, first, end),
    );
}

fn y_four(q: u32, first: u32, end: u32, v: vec4<f32>) {
    let at = q * 4u;
    if at >= first {
        y_put(at, min(4u, end - at), v);
    } else {
        if at + 1u >= first && at + 1u < end { y_set(at + 1u, v.y); }
        if at + 2u >= first && at + 2u < end { y_set(at + 2u, v.z); }
        if at + 3u < end { y_set(at + 3u, v.w); }
    }
}
