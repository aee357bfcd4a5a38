// y[b, o, i] = sum over c, t of w[o, c, t] x[b, c, source(i, t)], a convolution or a transposed one. A thread owns a
// word of y: for few output channels, for integers, and for groups, whose sums are over their own c_in channels c.

// slots: as it stands this file is the f32 convolution.
alias W = f32;
alias X = f32;
alias Y = f32;
alias YV = f32;
alias YL = vec4<f32>;
const Y_LANES = 1u;
fn w_get(at: u32) -> f32 { return w[at]; }
fn x_get(at: u32) -> f32 { return x[at]; }
fn y_word_put(i: u32, v: YL) { y[i] = v.x; }
// Where a tap of position i reads x, past the end for nowhere.
fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> { return i * p.stride + tap * p.dilation - p.padding; }
fn more(sum: YV, a: YV, b: YV) -> YV { return sum + a * b; }
// end slots

struct Params {
    c_in: u32, // of a group
    c_out: u32,
    k: u32,
    columns: u32,
    size: vec2<u32>, // of x; pairs are along h and along w
    out: vec2<u32>,
    taps: vec2<u32>,
    stride: vec2<u32>,
    padding: vec2<u32>,
    dilation: vec2<u32>,
    x_strides: vec4<u32>, // b, c, h, w
    w_strides: vec4<u32>, // o, c, h, w
    x_offset: u32,
    w_offset: u32,
    rows: u32,
    n: u32,
    group: u32, // channels o of a group
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<W>;
@group(0) @binding(2) var<storage, read> x: array<X>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

fn convolve(n: u32) -> YV {
    let row = n / p.out.y;
    let plane = row / p.out.x;
    let b = plane / p.c_out;
    let i = vec2<u32>(row - plane * p.out.x, n - row * p.out.y);
    let o = plane - b * p.c_out;
    let x_base = p.x_offset + b * p.x_strides.x + o / p.group * p.c_in * p.x_strides.y;
    let w_base = p.w_offset + o * p.w_strides.x;
    var sum: YV;
    for (var h = 0u; h < p.taps.x; h++) {
        for (var v = 0u; v < p.taps.y; v++) {
            let at = source(i, vec2<u32>(h, v));
            if all(at < p.size) {
                var x_at = x_base + at.x * p.x_strides.z + at.y * p.x_strides.w;
                var w_at = w_base + h * p.w_strides.z + v * p.w_strides.w;
                for (var c = 0u; c < p.c_in; c++) {
                    sum = more(sum, x_get(x_at), w_get(w_at));
                    x_at += p.x_strides.y;
                    w_at += p.w_strides.y;
                }
            }
        }
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = id.x + id.y * groups.x * WORKGROUP;
    if word >= (p.n + Y_LANES - 1u) / Y_LANES { return; }
    var out: YL;
    for (var lane = 0u; lane < Y_LANES; lane++) {
        let i = word * Y_LANES + lane;
        if i < p.n { out[lane] = convolve(i); }
    }
    y_word_put(word, out);
}
