// The virtual matrix b of a convolution by gemm_coop (implicit GEMM): element (k, n) is what tap t of the window at position n reads of
// channel c of an image, with k = (c, t). Lines of positions are rounded up to octets; what lies past their ends is not stored.

// slots: what gemm_coop.wgsl and its linker bring.
enable f16;
struct Params { k: u32, dims: vec4<u32>, more: More }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
override B_ALONG_K: u32 = 1u;
alias Octet = vec4<u32>;
const ROUND = 64u;
const HOLD = 8u;
const BN = 128u;
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> { return vec2<u32>(); }
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// Eight elements from `at` on, which is in column w of a line; stride.y apart.
fn eight(at: u32, w: u32) -> Octet { return Octet(); }
// end slots

struct More {
    size: vec2<u32>, // of an image; all pairs are (h, w)
    out: vec2<u32>,
    taps: vec2<u32>,
    stride: vec2<u32>,
    padding: vec2<u32>,
    dilation: vec2<u32>,
    channel: u32,  // stride of x between channels
    line: u32,     // stride of x between lines
    columns: u32,  // positions of a line, rounded up to octets
    over: u32,     // t * over / 65536 is t / taps.y, rounded down
}
// The start of the image in x, and the place of the first tap of the thread's first column.
var<private> image: u32;
var<private> place: vec2<u32>;

var<private> b_from: array<u32, HOLD>; // the channels and taps of the next octets

fn pack_tap(c: u32, t: u32) -> u32 { return c << 12u | t; }

fn b_start(thread: u32, n0: u32, base: u32, batch: u32) {
    let n = n0 + octet_at(thread, 0u, B_ALONG_K, BN).x;
    let line = n / p.more.columns;
    place = vec2<u32>(line, n - line * p.more.columns) * p.more.stride - p.more.padding;
    image = base;
    // With split-K, the part is the last digit of the batch index.
    let first = batch / p.dims.x * p.k;
    let taps = p.more.taps.x * p.more.taps.y;
    for (var i = 0u; i < HOLD; i++) {
        let k = first + octet_at(thread, i, B_ALONG_K, BN).y;
        b_from[i] = pack_tap(k / taps, k % taps);
    }
}

fn b_next(i: u32, live: bool, k0: u32) -> Octet {
    let c = b_from[i] >> 12u;
    let t = b_from[i] & 4095u;
    let taps = p.more.taps.x * p.more.taps.y;
    let past = t + ROUND % taps;
    let carry = past >= taps;
    b_from[i] = pack_tap(c + ROUND / taps + select(0u, 1u, carry), select(past, past - taps, carry));
    let row = t * p.more.over >> 16u;
    let h = place.x + row * p.more.dilation.x;
    let w = place.y + (t - row * p.more.taps.y) * p.more.dilation.y;
    let octet = eight(image + c * p.more.channel + h * p.more.line + w, w);
    return select(Octet(), octet, live && h < p.more.size.x);
}

// Mask of the halves of word j that lie inside a line of x, from column w on.
fn seen(w: u32, j: u32) -> u32 {
    let first = w + 2u * j * p.more.stride.y;
    return select(0u, 0xffffu, first < p.more.size.y) | select(0u, 0xffff0000u, first + p.more.stride.y < p.more.size.y);
}

alias Results = vec4<f32>;
fn results(m: u32, n: u32, at: u32) -> Results { return y_quad(at); }

fn store(row: u32, n: u32, v: Results) {
    let line = n / p.more.columns;
    let at = n - line * p.more.columns;
    if at < p.more.out.y { y_put((row * p.more.out.x + line) * p.more.out.y + at, min(4u, p.more.out.y - at), v); }
}
