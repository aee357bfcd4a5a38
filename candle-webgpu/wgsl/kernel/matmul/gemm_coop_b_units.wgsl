// The units of a quantized b for gemm_coop, scaled by lines. A thread owns a column of the tile, or of a small tile the low or the high
// halves of a column's units.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
enable f16;
const BN = 128u;
const PAD = 8u;
const ROUND = 64u;
const HALF = 32u;
const THREADS = 128u;
const W_SPAN = 2u;
const SPANS = 1u; // loaded at a time
const F16_SCALES = 0u; // 1 if a block's scale and shift are f16
override WHOLE_K: u32 = 1u;
struct Params { m: u32, n: u32, b_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(5) var<storage, read> b_scales: array<f32>;
struct Raw { q: u32 }
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_load(u: u32) -> Raw { return Raw(u); }
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    return Parts(vec4<u32>(r.q), vec4<u32>(u), vec2<i32>(), vec2<i32>(), vec2<f32>());
}
fn unit_four(word: u32) -> vec4<f32> { return vec4<f32>(unpack4xI8(word)); }
fn b_put(at: u32, v: vec4<f16>) {}
var<private> depth: u32;
// end slots

const LOADS = 1u;
const WAITS = false; // unpacking hides as much
var<private> b_raw: array<Raw, SPANS>;
var<private> b_unit: array<u32, SPANS>; // the first units of the spans
var<private> b_first: u32;              // the first unit of the column
var<private> b_by: f32;                 // 1 / the scale of the column, a power of two

fn b_begin(thread: u32, n0: u32, base: u32, batch: u32) {
    let n = min(n0 + thread % BN, p.n - 1u);
    b_first = (base + n * p.b_n) / 32u;
    b_by = bitcast<f32>(0x7f000000u - bitcast<u32>(b_scales[n]));
}

// Loads the spans of TURNS rounds, with zeros past the end of the slice.
fn b_fetch(thread: u32, i: u32, k0: u32, turn: u32) {
    if turn > 0u { return; }
    let units = depth / 32u;
    for (var s = 0u; s < SPANS; s++) {
        let u = k0 / 32u + s * W_SPAN;
        b_unit[s] = b_first + min(u, units - W_SPAN);
        b_raw[s] = w_load(b_unit[s]);
        if WHOLE_K == 0u && u >= units { b_raw[s] = Raw(); }
    }
}

// Unpacks two units, or the low or high halves of them.
fn b_stage(thread: u32, turn: u32) {
    let slot = thread % BN * ((ROUND + PAD) / 4u);
    for (var u = 0u; u < 2u; u++) { // unroll
        let at = turn * 2u + u;
        let unit = w_unpack(b_raw[at / W_SPAN], b_unit[at / W_SPAN], at % W_SPAN);
        if THREADS == BN {
            b_half(slot + u * 4u, unit, false);
            b_half(slot + u * 4u + 2u, unit, true);
        } else {
            b_half(slot + u * 4u + thread / BN * 2u, unit, thread >= BN);
        }
    }
}

// Stores the low or high half of a unit, of whose octets one quad lies in each half of the round.
fn b_half(slot: u32, unit: Parts, high: bool) {
    let words = select(unit.low, unit.high, high);
    // Exact, as it would be behind the sum: `b_by` is a power of two.
    let scale = unit.factor.x * f32(select(unit.scale.x, unit.scale.y, high)) * b_by;
    let shift = unit.factor.y * f32(select(unit.shift.x, unit.shift.y, high)) * b_by;
    for (var half = 0u; half < 2u; half++) { // unroll
        for (var i = 0u; i < 2u; i++) { b_put(slot + half * (HALF / 4u) + i, b_quad(words[2u * i + half], scale, shift)); } // unroll
    }
}

// scale q + shift for the four q of a word.
fn b_quad(word: u32, scale: f32, shift: f32) -> vec4<f16> {
    if F16_SCALES == 0u { return vec4<f16>(scale * unit_four(word) + shift); }
    let by = vec2<f16>(narrow(scale));
    let plus = vec2<f16>(narrow(shift));
    let even = fma(b_bytes(word), by, plus);
    let odd = fma(b_bytes(word >> 8u), by, plus);
    return vec4<f16>(even.x, odd.x, even.y, odd.y);
}

// Bytes 0 and 2 of a word, signed: 0x6480 + q are the bits of 1152 + q.
fn b_bytes(word: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float((word & 0x00ff00ffu) ^ 0x64806480u)) - vec2<f16>(1152.0h);
}

// A finite value that f16 cannot hold belongs to a block of zeros.
fn narrow(v: f32) -> f16 { return f16(select(v, 0.0, abs(v) > 65504.0 && abs(v) < 3.4e38)); }
