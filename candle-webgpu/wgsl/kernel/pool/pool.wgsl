// y[b, c, i] = mean or maximum of x[b, c, i * stride + t] over the taps t of a window. A thread owns a word of y.

// slots: as it stands this file is the f32 mean.
alias X = f32;
alias Y = f32;
alias XV = f32;
alias YL = vec4<f32>;
const Y_LANES = 1u;
fn x_get(at: u32) -> XV { return x[at]; }
fn y_word_put(i: u32, v: YL) { y[i] = v.x; }
fn join(a: XV, b: XV) -> XV { return a + b; }
fn finish(a: XV) -> XV { return a * bitcast<f32>(p.scale.x); }
// end slots

struct Params {
    n: u32,
    channels: u32,
    x_offset: u32,
    pad: u32,
    out: vec2<u32>, // (h, w), as all pairs
    taps: vec2<u32>,
    stride: vec2<u32>,
    scale: vec2<u32>,     // the bits of a compute value
    x_strides: vec4<u32>, // b, c, h, w
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

fn window(n: u32) -> XV {
    let row = n / p.out.y;
    let plane = row / p.out.x;
    let b = plane / p.channels;
    let i = vec2<u32>(row - plane * p.out.x, n - row * p.out.y) * p.stride;
    let base = p.x_offset + b * p.x_strides.x + (plane - b * p.channels) * p.x_strides.y;
    let first = base + i.x * p.x_strides.z + i.y * p.x_strides.w;
    var acc = x_get(first);
    var v = 1u; // acc holds the first tap
    for (var h = 0u; h < p.taps.x; h++) {
        for (; v < p.taps.y; v++) {
            acc = join(acc, x_get(first + h * p.x_strides.z + v * p.x_strides.w));
        }
        v = 0u;
    }
    return finish(acc);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = id.x + id.y * groups.x * WORKGROUP;
    if word >= (p.n + Y_LANES - 1u) / Y_LANES { return; }
    var out: YL;
    for (var lane = 0u; lane < Y_LANES; lane++) {
        let i = word * Y_LANES + lane;
        if i < p.n { out[lane] = window(i); }
    }
    y_word_put(word, out);
}
