// y[b, o, i] = sum over c, t of w[o, c, t] x[b, c, source(i, t)]: a convolution, transposed or not, as an implicit GEMM that gathers x
// while it stages it. A workgroup owns 16 TM channels o at 64 TQ positions (b, i), a thread TM channels at 4 TQ positions.

// slots: as it stands this file is the f32 convolution with a contiguous w and y of whole quads.
alias W = vec4<f32>;
alias X = f32;
alias Y = vec4<f32>;
const TM = 4u;
const TQ = 1u;
fn tile_place(thread: u32, across: u32) -> vec2<u32> { return vec2<u32>(thread / across, thread % across); }
fn x_get(at: u32) -> f32 { return x[at]; }
// origin: what a position contributes to a place in x; source: where a tap reads x, past the end if nowhere.
fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> { return i * stride - padding; }
fn source(place: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> { return place + tap; }
fn w_four(o: u32, k: u32) -> vec4<f32> { return w[(p.w_offset + o * p.w_strides.x + k) / 4u]; }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// Unrolled: indexing the sums with a variable would keep them in memory instead of registers.
fn finish(sums: array<vec4<f32>, 4>, o: u32, column: u32) {
    store(o, column, sums[0]);
    store(o + 1u, column, sums[1]);
    store(o + 2u, column, sums[2]);
    store(o + 3u, column, sums[3]);
}
// end slots

struct Params {
    c_in: u32,
    c_out: u32,
    k: u32,          // c_in times the taps
    columns: u32,    // positions of the whole batch, those of each image rounded up to quads
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
    rows: u32, // tiles along o
    n: u32,
    group: u32, // channels o of a group
    parts: u32, // split-K parts, whose results follow each other in y
    part: u32,  // terms of a part, a multiple of BK
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<W>;
@group(0) @binding(2) var<storage, read> x: array<X>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u; // 16 x 16 threads, whatever the tile
override PAD: u32 = 4u; // spreads stores along k over memory banks

const BM = 16u * TM;
const BN = 64u * TQ;
const BK = 16u;
const W_HOLD = (BM * BK / 4u + 255u) / 256u;
const X_HOLD = BN * BK / 4u / 256u;
var<workgroup> w_tile: array<f32, BK * (BM + PAD)>;
var<workgroup> x_tile: array<f32, BK * BN>;
var<private> w_hold: array<vec4<f32>, W_HOLD>;
var<private> x_hold: array<vec4<f32>, X_HOLD>;
// The four positions that the thread gathers: the start of their image, and their origins in it.
var<private> image: u32;
var<private> place_h: vec4<u32>;
var<private> place_w: vec4<u32>;
var<private> y_start: u32; // of the part's results

// The channel and the tap of k.
fn tap_of(k: u32) -> vec3<u32> {
    let row = k / p.taps.y;
    let c = row / p.taps.x;
    return vec3<u32>(c, row - c * p.taps.x, k - row * p.taps.y);
}

// The image and the first position of a quad of columns.
fn position(column: u32) -> vec2<u32> {
    let quads = (p.out.x * p.out.y + 3u) / 4u * 4u;
    let b = column / quads;
    return vec2<u32>(b, column - b * quads);
}

fn locate(column: u32) {
    // Past the end, the last quad repeats; nothing is stored for it.
    let at = position(min(column, p.columns - 4u));
    let i = min(vec4<u32>(0u, 1u, 2u, 3u) + at.y, vec4<u32>(p.out.x * p.out.y - 1u));
    let h = i / p.out.y;
    image = at.x * p.x_strides.x + p.x_offset;
    place_h = origin(h, p.stride.x, p.padding.x);
    place_w = origin(i - h * p.out.y, p.stride.y, p.padding.y);
}

fn x_four(k: u32) -> vec4<f32> {
    let tap = tap_of(k);
    let h = source(place_h, tap.y * p.dilation.x, p.stride.x);
    let w = source(place_w, tap.z * p.dilation.y, p.stride.y);
    let at = h * p.x_strides.z + w * p.x_strides.w + (image + tap.x * p.x_strides.y);
    let inside = (h < vec4<u32>(p.size.x)) & (w < vec4<u32>(p.size.y));
    var v = vec4<f32>();
    if inside.x { v.x = x_get(at.x); }
    if inside.y { v.y = x_get(at.y); }
    if inside.z { v.z = x_get(at.z); }
    if inside.w { v.w = x_get(at.w); }
    return v;
}

// Loads the thread's part of the tiles at k0 into registers; zero past the edges.
fn fetch(thread: u32, o0: u32, k0: u32) {
    for (var i = 0u; i < W_HOLD; i++) {
        let q = thread + i * 256u;
        let o = o0 + q / (BK / 4u);
        let k = k0 + q % (BK / 4u) * 4u;
        w_hold[i] = vec4<f32>();
        if o < p.c_out && k < p.k && q < BM * BK / 4u { w_hold[i] = w_four(o, k); }
    }
    for (var i = 0u; i < X_HOLD; i++) {
        let k = k0 + (thread + i * 256u) / (BN / 4u);
        x_hold[i] = vec4<f32>();
        if k < p.k { x_hold[i] = x_four(k); }
    }
}

fn stage(thread: u32) {
    for (var i = 0u; i < W_HOLD; i++) {
        let q = thread + i * 256u;
        if q < BM * BK / 4u {
            let first = q % (BK / 4u) * 4u * (BM + PAD) + q / (BK / 4u);
            w_tile[first] = w_hold[i].x;
            w_tile[first + BM + PAD] = w_hold[i].y;
            w_tile[first + 2u * (BM + PAD)] = w_hold[i].z;
            w_tile[first + 3u * (BM + PAD)] = w_hold[i].w;
        }
    }
    for (var i = 0u; i < X_HOLD; i++) {
        let first = (thread + i * 256u) * 4u;
        x_tile[first] = x_hold[i].x;
        x_tile[first + 1u] = x_hold[i].y;
        x_tile[first + 2u] = x_hold[i].z;
        x_tile[first + 3u] = x_hold[i].w;
    }
}

fn store(o: u32, column: u32, v: vec4<f32>) {
    let at = position(column);
    let area = p.out.x * p.out.y;
    if o < p.c_out && column < p.columns { y_put(y_start + (at.x * p.c_out + o) * area + at.y, min(4u, area - at.y), v); }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let part = group % p.parts;
    let o0 = group / p.parts % p.rows * BM;
    let column0 = group / p.parts / p.rows * BN;
    if column0 >= p.columns { return; }
    locate(column0 + thread % (BN / 4u) * 4u);
    y_start = part * p.n;

    let own = tile_place(thread, 16u) * vec2<u32>(TM, 4u);
    var acc: array<vec4<f32>, TM * TQ>;
    let end = min((part + 1u) * p.part, p.k);
    fetch(thread, o0, part * p.part);
    for (var k0 = part * p.part; k0 < end; k0 += BK) {
        stage(thread);
        workgroupBarrier();
        if k0 + BK < end { fetch(thread, o0, k0 + BK); }
        for (var k = 0u; k < BK; k++) {
            var right: array<vec4<f32>, TQ>;
            for (var j = 0u; j < TQ; j++) {
                let at = k * BN + j * 64u + own.y;
                right[j] = vec4<f32>(x_tile[at], x_tile[at + 1u], x_tile[at + 2u], x_tile[at + 3u]);
            }
            for (var i = 0u; i < TM; i++) {
                let left = w_tile[k * (BM + PAD) + own.x + i];
                for (var j = 0u; j < TQ; j++) { acc[i * TQ + j] += left * right[j]; }
            }
        }
        workgroupBarrier();
    }
    finish(acc, o0 + own.x, column0 + own.y);
}
