// Results of gemm_coop for both matrices of a pair, and their stores.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
const LANES = 32u;
const SIDE = 16u;
const STRIP_PITCH = 40u;
const THREADS = 128u;
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn y_quad(at: u32) -> vec4<f32> { return vec4<f32>(); }
fn b_scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> { return v; }
fn c_scaled(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> { return v; }
fn y_put(at: u32, count: u32, v: vec4<f32>, w: vec4<f32>) {}
// end slots

// Half of y_tile, in quads.
const OF_B = THREADS / LANES * SIDE * STRIP_PITCH / 8u;

struct Results { b: vec4<f32>, c: vec4<f32> }

fn results(m: u32, n: u32, at: u32) -> Results {
    return Results(b_scaled(y_quad(at % OF_B), m, n), c_scaled(y_quad(at % OF_B + OF_B), m, n));
}

fn store(row: u32, n: u32, v: Results) { y_put(row * p.n + n, min(4u, p.n - n), v.b, v.c); }
