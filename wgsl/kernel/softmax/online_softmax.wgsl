// Running softmax: the greatest of some values, and the sum of exp(value - greatest).

// slots: what the users bring.
fn x_four(q: u32, first: u32, end: u32) -> vec4<f32> { return vec4<f32>(f32(q)); }
// end slots

// No value is below.
const LOWEST = -3.4028234e38;

fn of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }

// Quad q of the elements first..end, some: -inf in the lanes that are not of them.
fn x_in(q: u32, first: u32, end: u32) -> vec4<f32> {
    let last = (end + 3u) / 4u - 1u;
    let v = x_four(min(q, last), first, end);
    let at = vec4<u32>(q * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(of_bits(0xff800000u)), v, (at >= vec4<u32>(first)) & (at < vec4<u32>(end)));
}

fn greatest(v: vec4<f32>) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

// Sixteen more values.
fn taken(held: vec2<f32>, v0: vec4<f32>, v1: vec4<f32>, v2: vec4<f32>, v3: vec4<f32>) -> vec2<f32> {
    let top = max(held.x, greatest(max(max(v0, v1), max(v2, v3))));
    let at = vec4<f32>(top);
    let sum = (exp(v0 - at) + exp(v1 - at)) + (exp(v2 - at) + exp(v3 - at));
    return vec2<f32>(top, held.y * exp(held.x - top) + ((sum.x + sum.y) + (sum.z + sum.w)));
}

fn joined(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let top = max(a.x, b.x);
    return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));
}
