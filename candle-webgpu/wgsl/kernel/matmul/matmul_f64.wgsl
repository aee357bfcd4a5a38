// y[b, m, n] = sum over k of a[b, m, k] b[b, k, n] for values of more than one word, whose addition and multiplication are
// functions. A thread owns an element of y.

// slots: as it stands this file is the f32 case.
alias A = f32;
alias B = f32;
alias Y = f32;
alias YV = f32;
alias YL = vec4<f32>;
fn a_get(i: u32) -> YV { return a[i]; }
fn b_get(i: u32) -> YV { return b[i]; }
fn y_word_put(w: u32, v: YL) { y[w] = v[0]; }
fn badd(u: YV, v: YV) -> YV { return u + v; }
fn bmul(u: YV, v: YV) -> YV { return u * v; }
// end slots

struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32,
    rows: u32,
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: vec4<u32>, // batch dims, innermost first
    a_batch: vec4<u32>,
    b_batch: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;
override WORKGROUP: u32 = 128u;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.x + id.y * groups.x * WORKGROUP;
    let row = i / p.n;
    var rest = row / p.m;
    if rest >= p.batch { return; }
    var a_at = p.a_offset + row % p.m * p.a_m;
    var b_at = p.b_offset + i % p.n * p.b_n;
    for (var d = 0u; d < 4u; d++) {
        let digit = rest % p.dims[d];
        rest /= p.dims[d];
        a_at += digit * p.a_batch[d];
        b_at += digit * p.b_batch[d];
    }
    var sum = YV();
    for (var k = 0u; k < p.k; k++) {
        sum = badd(sum, bmul(a_get(a_at), b_get(b_at)));
        a_at += p.a_k;
        b_at += p.b_k;
    }
    y_word_put(i, YL(sum, sum, sum, sum));
}
