// y[b, o, i] = sum over c, t of w[o, c, t] x[b, c, source(i, t)], a convolution or a transposed one: a product of
// matrices that gathers x while it stages it. A workgroup owns 16 TM channels o of 64 TQ positions (b, i), a thread
// TM channels of TQ times four positions.

// slots: as it stands this file is the f32 case with a contiguous w and y of whole quads.
alias W = vec4<f32>;
alias X = f32;
alias Y = vec4<f32>;
const TM = 4u;
const TQ = 1u;
fn x_get(at: u32) -> f32 { return x[at]; }
fn w_four(o: u32, k: u32) -> vec4<f32> { return w[(p.w_offset + o * p.w_strides.x + k) / 4u]; }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// end slots

struct Params {
    c_in: u32,
    c_out: u32,
    k: u32,          // c_in times the taps
    columns: u32,    // positions of the whole batch
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
    rows: u32, // tiles along o
    n: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<W>;
@group(0) @binding(2) var<storage, read> x: array<X>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 256u; // 16 x 16 threads, whatever the tile
override TRANSPOSED: u32 = 0u;
override PAD: u32 = 4u; // keeps stores that run along k off one memory bank

const BM = 16u * TM;
const BN = 64u * TQ;
const BK = 16u;
const W_HOLD = (BM * BK / 4u + 255u) / 256u;
const X_HOLD = BN * BK / 4u / 256u;
var<workgroup> w_tile: array<f32, BK * (BM + PAD)>;
var<workgroup> x_tile: array<f32, BK * BN>;
var<private> w_hold: array<vec4<f32>, W_HOLD>;
var<private> x_hold: array<vec4<f32>, X_HOLD>;
// The four positions that the thread gathers: where their image begins, and their place in it before the tap counts.
var<private> image: vec4<u32>;
var<private> place_h: vec4<u32>;
var<private> place_w: vec4<u32>;

fn origin(i: vec4<u32>, stride: u32, padding: u32) -> vec4<u32> {
    if TRANSPOSED == 1u { return i + padding; }
    return i * stride - padding;
}

// Where a tap reads x, past the end for nowhere.
fn source(from: vec4<u32>, tap: u32, stride: u32) -> vec4<u32> {
    if TRANSPOSED == 0u { return from + tap; }
    let at = from - tap;
    let hit = (at < vec4<u32>(0x80000000u)) & (at % stride == vec4<u32>(0u));
    return select(vec4<u32>(0xffffffffu), at / stride, hit);
}

// The channel and the tap of k.
fn tap_of(k: u32) -> vec3<u32> {
    let row = k / p.taps.y;
    let c = row / p.taps.x;
    return vec3<u32>(c, row - c * p.taps.x, k - row * p.taps.y);
}

fn locate(column: u32) {
    // Columns past the end repeat the last one; nothing is stored for them.
    let j = min(vec4<u32>(0u, 1u, 2u, 3u) + column, vec4<u32>(p.columns - 1u));
    let b = j / (p.out.x * p.out.y);
    let i = j - b * (p.out.x * p.out.y);
    let h = i / p.out.y;
    image = b * p.x_strides.x + p.x_offset;
    place_h = origin(h, p.stride.x, p.padding.x);
    place_w = origin(i - h * p.out.y, p.stride.y, p.padding.y);
}

fn x_four(k: u32) -> vec4<f32> {
    let tap = tap_of(k);
    let h = source(place_h, tap.y * p.dilation.x, p.stride.x);
    let w = source(place_w, tap.z * p.dilation.y, p.stride.y);
    let at = image + tap.x * p.x_strides.y + h * p.x_strides.z + w * p.x_strides.w;
    let inside = (h < vec4<u32>(p.size.x)) & (w < vec4<u32>(p.size.y));
    var v = vec4<f32>();
    if inside.x { v.x = x_get(at.x); }
    if inside.y { v.y = x_get(at.y); }
    if inside.z { v.z = x_get(at.z); }
    if inside.w { v.w = x_get(at.w); }
    return v;
}

// Fetches the thread's share of the tiles at k0 into registers; zero past the edges.
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
            for (var j = 0u; j < 4u; j++) { w_tile[first + j * (BM + PAD)] = w_hold[i][j]; }
        }
    }
    for (var i = 0u; i < X_HOLD; i++) {
        let first = (thread + i * 256u) * 4u;
        for (var j = 0u; j < 4u; j++) { x_tile[first + j] = x_hold[i][j]; }
    }
}

// Four values of channel o from a column on: as a run, or one by one where they lie in two images.
fn store(o: u32, column: u32, v: vec4<f32>) {
    let area = p.out.x * p.out.y;
    let b = column / area;
    let i = column - b * area;
    let left = min(4u, p.columns - column);
    if i + left <= area {
        y_put((b * p.c_out + o) * area + i, left, v);
        return;
    }
    for (var j = 0u; j < left; j++) {
        let at = (column + j) / area;
        y_put((at * p.c_out + o) * area + column + j - at * area, 1u, vec4<f32>(v[j]));
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    let group = id.y * count.x + id.x;
    let o0 = group % p.rows * BM;
    let column0 = group / p.rows * BN;
    if column0 >= p.columns { return; }
    locate(column0 + thread % (BN / 4u) * 4u);

    let row = thread / 16u * TM;
    let col = thread % 16u * 4u;
    var acc: array<vec4<f32>, TM * TQ>;
    fetch(thread, o0, 0u);
    for (var k0 = 0u; k0 < p.k; k0 += BK) {
        stage(thread);
        workgroupBarrier();
        if k0 + BK < p.k { fetch(thread, o0, k0 + BK); }
        for (var k = 0u; k < BK; k++) {
            var right: array<vec4<f32>, TQ>;
            for (var j = 0u; j < TQ; j++) {
                let at = k * BN + j * 64u + col;
                right[j] = vec4<f32>(x_tile[at], x_tile[at + 1u], x_tile[at + 2u], x_tile[at + 3u]);
            }
            for (var i = 0u; i < TM; i++) {
                let left = w_tile[k * (BM + PAD) + row + i];
                for (var j = 0u; j < TQ; j++) { acc[i * TQ + j] += left * right[j]; }
            }
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < TQ; j++) {
        let column = column0 + j * 64u + col;
        if column >= p.columns { continue; }
        for (var i = 0u; i < TM; i++) {
            if o0 + row + i < p.c_out { store(o0 + row + i, column, acc[i * TQ + j]); }
        }
    }
}
