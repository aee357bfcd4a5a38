// y[i] = clamp(a + b * u), where u is drawn with the counter i / 4. A thread owns four elements of y, one draw.

// slots: as it stands this file is the uniform distribution in f32, without a generator.
alias Y = vec4<f32>;
alias YL = vec4<f32>;
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn philox(seed: vec2<u32>, counter: vec2<u32>) -> vec4<u32> { return vec4<u32>(seed, counter); }
fn draw(bits: vec4<u32>) -> vec4<f32> { return unit(bits); }
// end slots

struct Params {
    n: u32,
    zero: u32,
    seed: vec2<u32>,
    counter: vec2<u32>,
    a: f32,
    b: f32,
    least: f32,
    most: f32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

// Multiples of 2^-24 from [0, 1).
fn unit(bits: vec4<u32>) -> vec4<f32> { return vec4<f32>(bits >> vec4<u32>(8u)) * 5.9604645e-8; }

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q >= (p.n + 3u) / 4u { return; }
    let low = p.counter.x + q;
    let bits = philox(p.seed, vec2<u32>(low, p.counter.y + u32(low < q)));
    // The zero is not a constant, so that no compiler fuses the product and the sum: results are bit-identical on all adapters.
    let scaled = bitcast<vec4<f32>>(bitcast<vec4<u32>>(draw(bits) * p.b) | vec4<u32>(p.zero));
    y_quad_put(q, clamp(scaled + vec4<f32>(p.a), vec4<f32>(p.least), vec4<f32>(p.most)));
}
