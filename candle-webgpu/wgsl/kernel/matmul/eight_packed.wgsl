// a_eight(row, k): eight packed elements of a row from k on, by one load of 16 bytes.
// a_ahead(first, row): zero; the thread whose `first` is 0 reads ahead if the row begins a page (lib/pages.wgsl).

// slots: stand-ins for what the kernel and its linker provide.
const COLS = 2u;
const PAGE = 1u << 19u;
const AHEAD = 1u << 22u;
struct Epilogue { zero: u32 }
struct Params { epilogue: Epilogue, @align(16) k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
struct Eight { low: vec4<f32>, high: vec4<f32> }
@group(0) @binding(1) var<storage, read> a: array<A>;
fn f16_unpack(q: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(q.x), unpack2x16float(q.y)); }
// end slots

alias A = vec4<u32>;
fn a_eight(row: u32, k: u32) -> Eight {
    let words = a[(row + k) / 8u];
    return Eight(f16_unpack(words.xy), f16_unpack(words.zw));
}
fn a_ahead(first: u32, row: u32) -> f32 {
    var word = 0u;
    if first == 0u && row % PAGE < COLS * p.k { word = a[min((row + AHEAD) / 8u, arrayLength(&a) - 1u)].x; }
    return bitcast<f32>(word & p.epilogue.zero);
}
