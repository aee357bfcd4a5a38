// The columns of a pair of matrices b and c in gemv_dot: OWN columns of b, followed by the same columns of c.

// slots: stand-ins for what gemv_dot.wgsl and its linker provide.
alias C = vec4<u32>;
const OWN = 2u;
struct Epilogue { step: u32 }
struct Params { epilogue: Epilogue }
@group(0) @binding(0) var<uniform> p: Params;
struct Matrix { start: u32, n: u32, stride: u32 }
fn unit_at(w: Matrix, n: u32, s: u32) -> u32 { return w.start + n * w.stride + s; }
// end slots

@group(0) @binding(4) var<storage, read> c: array<C>;
fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 {
    return unit_at(Matrix(w.start + c / OWN * p.epilogue.step, w.n, w.stride), n + c % OWN, s);
}
