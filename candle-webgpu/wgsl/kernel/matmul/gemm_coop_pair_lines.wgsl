// A pair of matrices b and c of lines for gemm_coop: the first half of a thread's octets are of b, the others of c.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
const HOLD = 8u;
alias Wide = vec4<u32>;
@group(0) @binding(5) var<storage, read> b_scales: array<f32>;
@group(0) @binding(6) var<storage, read> c_scales: array<f32>;
fn wide_at(at: u32) -> Wide { return Wide(); }
fn c_wide_at(at: u32) -> Wide { return Wide(); }
// end slots

fn wide_of(i: u32, at: u32) -> Wide {
    if i < HOLD / 2u { return wide_at(at); }
    return c_wide_at(at);
}

fn scale_of(i: u32, n: u32) -> f32 {
    if i < HOLD / 2u { return b_scales[n]; }
    return c_scales[n];
}
