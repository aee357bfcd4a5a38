// y[i, c] = sum over splits s of e[i, s] x[i, s, c] / sum over s of e[i, s] w[i, s], e[i, s] = exp(m[i, s] - max_s m[i, s]), for
// sums x, maxima m and sums of weights w that the splits of an attention left. A thread owns four consecutive elements of y.

// slots: as it stands this file is the f32 case.
alias X = vec4<f32>;
alias Y = vec4<f32>;
fn x_get4(at4: u32) -> vec4<f32> { return x[at4]; }
fn y_quad_put(q: u32, v: vec4<f32>) { y[q] = v; }
// end slots

struct Params { quads: u32, columns: u32, splits: u32, nan: f32 } // columns in quads
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let quad = id.x + id.y * groups.x * WORKGROUP;
    if quad >= p.quads { return; }
    let column = quad % p.columns;
    var at = quad / p.columns * p.splits * (p.columns + 1u);
    var high = x_get4(at + p.columns).x;
    var sum = vec4<f32>();
    var weights = 0.0;
    for (var s = 0u; s < p.splits; s++) {
        let here = x_get4(at + p.columns);
        let top = max(high, here.x);
        let shrink = exp(high - top);
        let grow = exp(here.x - top);
        high = top;
        weights = weights * shrink + here.y * grow;
        sum = sum * shrink + x_get4(at + column) * grow;
        at += p.columns + 1u;
    }
    y_quad_put(quad, select(sum / weights, vec4<f32>(p.nan), weights == 0.0));
}
