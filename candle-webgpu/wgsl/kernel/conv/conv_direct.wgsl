// y[b, o, i] = sum over c, t of w[o, c, t] x[b, c, source(i, t)]: a convolution, transposed or not, for few output channels, integers,
// f64 and groups (whose sums are over their own c_in channels). A thread owns four elements of y.

// slots: as it stands this file is the f32 convolution.
alias W = f32;
alias X = f32;
alias Y = vec4<f32>;
alias YV = f32;
alias YL = vec4<f32>;
fn w_get(at: u32) -> f32 { return w[at]; }
fn x_get(at: u32) -> f32 { return x[at]; }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
// Where tap t of position i reads x; past the end if nowhere.
fn source(i: vec2<u32>, tap: vec2<u32>) -> vec2<u32> { return i * p.stride + tap * p.dilation - p.padding; }
fn more(sum: YV, a: YV, b: YV) -> YV { return sum + a * b; }
// end slots

struct Params {
    c_in: u32, // of a group
    c_out: u32,
    k: u32,
    columns: u32,
    size: vec2<u32>, // of x; all pairs are (h, w)
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
    parts: u32, // these two are conv_gemm's
    part: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<W>;
@group(0) @binding(2) var<storage, read> x: array<X>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

// Element n of y, and the three after it if `four`, which requires that they lie in one line; else 0.
fn convolve(n: u32, four: bool) -> YL {
    let row = n / p.out.y;
    let plane = row / p.out.x;
    let b = plane / p.c_out;
    let o = plane - b * p.c_out;
    let i = vec2<u32>(row - plane * p.out.x, n - row * p.out.y);
    let x_base = p.x_offset + b * p.x_strides.x + o / p.group * p.c_in * p.x_strides.y;
    let w_base = p.w_offset + o * p.w_strides.x;
    var sum0: YV;
    var sum1: YV;
    var sum2: YV;
    var sum3: YV;
    for (var h = 0u; h < p.taps.x; h++) {
        for (var v = 0u; v < p.taps.y; v++) {
            let tap = vec2<u32>(h, v);
            let at0 = source(i, tap);
            let at1 = source(i + vec2<u32>(0u, 1u), tap);
            let at2 = source(i + vec2<u32>(0u, 2u), tap);
            let at3 = source(i + vec2<u32>(0u, 3u), tap);
            let hit0 = all(at0 < p.size);
            let hit1 = four && all(at1 < p.size);
            let hit2 = four && all(at2 < p.size);
            let hit3 = four && all(at3 < p.size);
            var w_at = w_base + h * p.w_strides.z + v * p.w_strides.w;
            var x_at = x_base;
            for (var c = 0u; c < p.c_in; c++) {
                // Taps outside x load its first element instead, so that no load waits for a branch.
                let x0 = x_get(x_at + select(0u, place(at0), hit0));
                let x1 = x_get(x_at + select(0u, place(at1), hit1));
                let x2 = x_get(x_at + select(0u, place(at2), hit2));
                let x3 = x_get(x_at + select(0u, place(at3), hit3));
                let tap_w = w_get(w_at);
                sum0 = select(sum0, more(sum0, x0, tap_w), hit0);
                sum1 = select(sum1, more(sum1, x1, tap_w), hit1);
                sum2 = select(sum2, more(sum2, x2, tap_w), hit2);
                sum3 = select(sum3, more(sum3, x3, tap_w), hit3);
                x_at += p.x_strides.y;
                w_at += p.w_strides.y;
            }
        }
    }
    return YL(sum0, sum1, sum2, sum3);
}

// The offset of a place from the start of its image.
fn place(at: vec2<u32>) -> u32 { return at.x * p.x_strides.z + at.y * p.x_strides.w; }

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let quad = id.x + id.y * groups.x * WORKGROUP;
    let n = quad * 4u;
    if n >= p.n { return; }
    let four = n % p.out.y + 4u <= p.out.y;
    var out = convolve(n, four);
    if !four {
        for (var lane = 1u; lane < min(4u, p.n - n); lane++) {
            out[lane] = convolve(n + lane, false)[0];
        }
    }
    y_quad_put(quad, out);
}
