// y[b, c, h, w] = x[b, c, places[h], places[out.x + w]], moving bits. A thread owns a word of y.

// slots: as it stands this file is the 32-bit case.
alias X = u32;
alias Y = u32;
alias XV = u32;
alias YL = vec4<u32>;
const Y_LANES = 1u;
fn x_get(at: u32) -> XV { return x[at]; }
fn y_word_put(i: u32, v: YL) { y[i] = v.x; }
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
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
// The element of x for each place along h, then along w: the host rounds as f64 does.
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let word = id.x + id.y * groups.x * WORKGROUP;
    if word >= (p.n + Y_LANES - 1u) / Y_LANES { return; }
    var out: YL;
    for (var lane = 0u; lane < Y_LANES; lane++) {
        let i = word * Y_LANES + lane;
        if i < p.n {
            let row = i / p.out.y;
            let plane = row / p.out.x;
            let b = plane / p.channels;
            let h = places[row - plane * p.out.x];
            let w = places[p.out.x + i - row * p.out.y];
            let at = vec4<u32>(b, plane - b * p.channels, h, w) * p.x_strides;
            out[lane] = x_get(p.x_offset + at.x + at.y + at.z + at.w);
        }
    }
    y_word_put(word, out);
}
