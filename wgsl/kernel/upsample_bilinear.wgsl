// y[b, c, h, w] = the four neighbours in x of the place that (h, w) comes from, weighted by their nearness. A thread
// owns a word of y.

// slots: as it stands this file is the f32 case.
alias X = f32;
alias Y = f32;
alias YL = vec4<f32>;
const Y_LANES = 1u;
fn x_get(at: u32) -> f32 { return x[at]; }
fn y_word_put(i: u32, v: YL) { y[i] = v.x; }
// end slots

struct Params {
    n: u32,
    channels: u32,
    x_offset: u32,
    pad: u32,
    out: vec2<u32>, // along h and along w
    pad2: vec2<u32>,
    x_strides: vec4<u32>, // b, c, h, w
}
// Two neighbours along a dim and their weights.
struct Place { i: vec2<u32>, weights: vec2<f32> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
// For each place along h, then along w: the host rounds as f64 does.
@group(0) @binding(2) var<storage, read> places: array<Place>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

fn blend(n: u32) -> f32 {
    let row = n / p.out.y;
    let plane = row / p.out.x;
    let b = plane / p.channels;
    let base = p.x_offset + b * p.x_strides.x + (plane - b * p.channels) * p.x_strides.y;
    let h = places[row - plane * p.out.x];
    let w = places[p.out.x + n - row * p.out.y];
    let at_h = h.i * p.x_strides.z + base;
    let at_w = w.i * p.x_strides.w;
    let top = x_get(at_h.x + at_w.x) * w.weights.x + x_get(at_h.x + at_w.y) * w.weights.y;
    let bottom = x_get(at_h.y + at_w.x) * w.weights.x + x_get(at_h.y + at_w.y) * w.weights.y;
    return top * h.weights.x + bottom * h.weights.y;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = id.x + id.y * groups.x * WORKGROUP;
    if word >= (p.n + Y_LANES - 1u) / Y_LANES { return; }
    var out: YL;
    for (var lane = 0u; lane < Y_LANES; lane++) {
        let i = word * Y_LANES + lane;
        if i < p.n { out[lane] = blend(i); }
    }
    y_word_put(word, out);
}
