// a_eight(row, k): eight f32 of a row from k on, by loads of 16 bytes.
// a_ahead(first, row): zero; the thread whose `first` is 0 reads ahead if the row begins a page (lib/pages.wgsl).

// slots: stand-ins for what the kernel provides.
const COLS = 2u;
const PAGE = 1u << 19u;
const AHEAD = 1u << 22u;
struct Epilogue { zero: u32 }
struct Params { epilogue: Epilogue, @align(16) k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
struct Eight { low: vec4<f32>, high: vec4<f32> }
@group(0) @binding(1) var<storage, read> a: array<A>;
// end slots

alias A = vec4<f32>;
fn a_eight(row: u32, k: u32) -> Eight { let q = (row + k) / 4u; return Eight(a[q], a[q + 1u]); }
fn a_ahead(first: u32, row: u32) -> f32 {
    var word = 0u;
    if first == 0u && row % PAGE < COLS * p.k { word = bitcast<u32>(a[min((row + AHEAD) / 4u, arrayLength(&a) - 1u)].x); }
    return bitcast<f32>(word & p.epilogue.zero);
}
