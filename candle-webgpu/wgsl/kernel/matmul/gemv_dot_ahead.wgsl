// read_ahead(which, at, lane): zero; lane 0 reads ahead if the column at `at` begins a page (lib/pages.wgsl).

// slots: stand-ins for what gemv_dot.wgsl and its linker provide.
const OWN = 2u;
const PAGE = 1u << 19u;
struct Epilogue { zero: u32 }
struct Params { epilogue: Epilogue, @align(16) k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
fn word_ahead(which: u32, at: u32) -> u32 { return 0u; }
// end slots

fn read_ahead(which: u32, at: u32, lane: u32) -> f32 {
    var word = 0u;
    if lane == 0u && at % PAGE < OWN * p.k { word = word_ahead(which, at); }
    return bitcast<f32>(word & p.epilogue.zero);
}
