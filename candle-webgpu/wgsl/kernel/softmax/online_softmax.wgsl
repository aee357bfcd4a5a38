// Online softmax: the running (maximum m, sum of exp(x - m)) of the values x seen so far.

// slots: stands for what the kernels bring.
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return vec4<f32>(f32(q)); }
// end slots

// The least finite f32.
const LOWEST = -3.4028234e38;

fn of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }

// Quad q of a row first .. end that is not empty; -inf in the lanes outside of the row.
fn x_in(q: u32, first: u32, end: u32) -> vec4<f32> {
    let last = (end + 3u) / 4u - 1u;
    let v = x_four(min(q, last), first, end);
    let at = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(of_bits(0xff800000u)), v, (at >= vec4<u32>(first)) & (at < vec4<u32>(end)));
}

fn max_of(v: vec4<f32>) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

// Adds sixteen values.
fn accumulate(running: vec2<f32>, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) -> vec2<f32> {
    let top = max(running.x, max_of(max(max(v0, v1), max(v2, v3))));
    let at = vec4<f32>(top);
    let sum = (exp(v0 - at) + exp(v1 - at)) + (exp(v2 - at) + exp(v3 - at));
    return vec2<f32>(top, running.y * exp(running.x - top) + ((sum.x + sum.y) + (sum.z + sum.w)));
}

fn combine(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let top = max(a.x, b.x);
    return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));
}
