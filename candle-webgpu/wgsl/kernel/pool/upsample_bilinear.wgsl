// y[b, c, h, w] = bilinear interpolation of the four neighbours of a place in x. A thread owns a word of y.

// slots: as it stands this file is the f32 case.
alias X = f32;
alias Y = f32;
alias XV = f32;
alias YV = f32;
alias YL = vec4<f32>;
alias V = f32; // the type of the sum
const Y_LANES = 1u;
fn x_get(at: u32) -> XV { return x[at]; }
fn y_word_put(i: u32, v: YL) { y[i] = v.x; }
fn widen(v: XV) -> V { return v; }
fn narrow(v: V) -> YV { return v; }
fn mix_two(a: V, near: V, b: V, far: V) -> V { return a * near + b * far; }
// end slots

struct Params {
    n: u32,
    channels: u32,
    x_offset: u32,
    pad: u32,
    out: vec2<u32>, // (h, w)
    pad2: vec2<u32>,
    x_strides: vec4<u32>, // b, c, h, w
}
// Two neighbours along a dim and their weights.
struct Place { low: u32, high: u32, near: V, far: V }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
// For each place along h, then along w: the host rounds as f64 does.
@group(0) @binding(2) var<storage, read> places: array<Place>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

fn blend(n: u32) -> YV {
    let row = n / p.out.y;
    let plane = row / p.out.x;
    let b = plane / p.channels;
    let base = p.x_offset + b * p.x_strides.x + (plane - b * p.channels) * p.x_strides.y;
    let h = places[row - plane * p.out.x];
    let w = places[p.out.x + n - row * p.out.y];
    var rows = array<V, 2>();
    for (var i = 0u; i < 2u; i++) {
        let at = base + select(h.low, h.high, i == 1u) * p.x_strides.z;
        let a = widen(x_get(at + w.low * p.x_strides.w));
        rows[i] = mix_two(a, w.near, widen(x_get(at + w.high * p.x_strides.w)), w.far);
    }
    return narrow(mix_two(rows[0], h.near, rows[1], h.far));
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
