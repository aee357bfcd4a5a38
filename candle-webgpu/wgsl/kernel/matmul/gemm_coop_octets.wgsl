// How gemm_coop reads operands whose octets are aligned to 16 bytes. naga 30 has no bitcast to f16; NVIDIA's compiler removes the
// conversion to f32 and back.

// slots: stand-ins for what gemm_coop.wgsl provides.
enable f16;
@group(0) @binding(1) var<storage, read_write> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> b: array<vec4<u32>>;
// end slots

alias Load = vec4<u32>;
alias Octet = vec4<u32>;
const UNIT = 8u;
fn a_octet(at: u32) -> Octet { return a[at]; }
fn b_octet(at: u32) -> Octet { return b[at]; }
fn quad(of8: Octet, high: bool) -> vec4<f16> {
    let words = select(of8.xy, of8.zw, high);
    return vec4<f16>(vec2<f16>(unpack2x16float(words.x)), vec2<f16>(unpack2x16float(words.y)));
}
fn within(of8: Octet, low: bool, high: bool) -> Octet { return select(Octet(), of8, vec4<bool>(low, low, high, high)); }
