// How gemm_coop reads operands of which only the quads are aligned, to 8 bytes. Clamps the second quad of an octet, which may lie past
// the end for the last one.

// slots: stand-ins for what gemm_coop.wgsl provides.
enable f16;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<f16>>;
// end slots

alias Load = vec4<f16>;
struct Octet { low: vec4<f16>, high: vec4<f16> }
const UNIT = 4u;
fn a_octet(at: u32) -> Octet { return Octet(a[at], a[min(at + 1u, arrayLength(&a) - 1u)]); }
fn b_octet(at: u32) -> Octet { return Octet(b[at], b[min(at + 1u, arrayLength(&b) - 1u)]); }
fn quad(of8: Octet, high: bool) -> vec4<f16> { return select(of8.low, of8.high, high); }
fn within(of8: Octet, low: bool, high: bool) -> Octet {
    return Octet(select(vec4<f16>(), of8.low, low), select(vec4<f16>(), of8.high, high));
}
