// A matrix b for gemm_coop that is not there: row k = (c, tap) and column n = (line, place) of it hold what a tap of a window reads of
// channel c of an image. Lines of columns are rounded up to octets, of which no part past the end is stored.

// slots: what gemm_coop.wgsl and its linker bring.
enable f16;
struct Params { k: u32, dims: vec4<u32>, more: More }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
override B_ALONG_K: u32 = 1u;
alias Octet = vec4<u32>;
const ROUND = 64u;
var<private> b_from: array<u32, 8>;
fn y_put(at: u32, count: u32, v: vec4<f32>) { y[at / 4u] = v; }
// The words of eight elements from `at` on, `at` being that of column w: where windows move by more than one, every so manieth.
fn eight(at: u32, w: u32) -> Octet { return Octet(); }
// end slots

struct More {
    size: vec2<u32>, // of an image; pairs are along h and along w
    out: vec2<u32>,
    taps: vec2<u32>,
    stride: vec2<u32>,
    padding: vec2<u32>,
    dilation: vec2<u32>,
    channel: u32,  // elements from channel to channel of x
    line: u32,     // and from line to line
    columns: u32,  // of a line of the result, rounded up to octets
    over: u32,     // t * over / 65536 is t / taps.y, rounded down
}
// The element of x, and its line and place, under the first tap of the thread's first column.
var<private> image: u32;
var<private> place: vec2<u32>;

fn pack_tap(c: u32, t: u32) -> u32 { return c << 12u | t; }

fn b_start(i: u32, n: u32, k: u32, base: u32, batch: u32) {
    let line = n / p.more.columns;
    place = vec2<u32>(line, n - line * p.more.columns) * p.more.stride - p.more.padding;
    image = base;
    // Parts of k are the last digit of a batch.
    let first = k + batch / p.dims.x * p.k;
    let taps = p.more.taps.x * p.more.taps.y;
    b_from[i] = pack_tap(first / taps, first % taps);
}

fn b_next(i: u32, live: bool, more: bool) -> Octet {
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

// Halves of words j that lie inside a line of x, from places w on.
fn seen(w: u32, j: u32) -> u32 {
    let first = w + 2u * j * p.more.stride.y;
    return select(0u, 0xffffu, first < p.more.size.y) | select(0u, 0xffff0000u, first + p.more.stride.y < p.more.size.y);
}

fn store(row: u32, n: u32, v: vec4<f32>) {
    let line = n / p.more.columns;
    let at = n - line * p.more.columns;
    if at < p.more.out.y { y_put((row * p.more.out.x + line) * p.more.out.y + at, min(4u, p.more.out.y - at), v); }
}
