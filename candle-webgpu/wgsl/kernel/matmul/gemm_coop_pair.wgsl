// A pair of matrices b and c for gemm_coop: the first half of a thread's octets are of b, the others of c.

// slots: stand-ins for what gemm_coop.wgsl and its linker provide.
const HOLD = 8u;
alias Octet = vec4<u32>;
fn b_octet(at: u32) -> Octet { return Octet(); }
fn c_octet(at: u32) -> Octet { return Octet(); }
// end slots

fn octet_of(i: u32, at: u32) -> Octet {
    if i < HOLD / 2u { return b_octet(at); }
    return c_octet(at);
}
