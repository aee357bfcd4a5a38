// y[i] = clamp(a + b * u) in f64, where u is drawn with the counter i / 2. A thread owns four elements of y, two draws.

// slots: as it stands this file writes seed and counter, without a generator.
alias Y = vec4<u32>;
alias YV = u32;
alias YL = vec4<u32>;
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
fn philox(seed: vec2<u32>, counter: vec2<u32>) -> vec4<u32> { return vec4<u32>(seed, counter); }
fn draw(bits: vec4<u32>) -> array<YV, 2> { return array<YV, 2>(bits.x, bits.y); }
fn finish(u: YV) -> YV { return u; }
// end slots

struct Params {
    n: u32,
    pad: u32,
    seed: vec2<u32>,
    counter: vec2<u32>,
    a: vec2<u32>,
    b: vec2<u32>,
    least: vec2<u32>,
    most: vec2<u32>,
    pad2: vec2<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let q = id.x + id.y * groups.x * WORKGROUP;
    if q >= (p.n + 3u) / 4u { return; }
    var u: array<YV, 4>;
    for (var i = 0u; i < 2u; i++) {
        let low = p.counter.x + (q * 2u + i);
        let two = draw(philox(p.seed, vec2<u32>(low, p.counter.y + u32(low < p.counter.x))));
        u[i * 2u] = finish(two[0]);
        u[i * 2u + 1u] = finish(two[1]);
    }
    y_quad_put(q, YL(u[0], u[1], u[2], u[3]));
}
