// early_zero(bits, k): zero, which a kernel adds to an accumulator so that `bits` are loaded before the loop along k, or early in its
// round, and waited for behind the loads of weights. No compiler leaves the loads out, since it does not know that a parameter is zero,
// nor moves the use in front of the loop, since it depends on k.

// slots: stand-ins for what the kernel provides.
struct Epilogue { zero: u32 }
struct Params { epilogue: Epilogue }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

fn early_zero(bits: u32, k: u32) -> f32 { return bitcast<f32>(bits & (k * p.epilogue.zero)); }
