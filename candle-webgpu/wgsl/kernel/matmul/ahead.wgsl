// a_ahead(first, row): some bits, which the caller masks; the thread whose `first` is 0 reads ahead if the row begins a page
// (lib/pages.wgsl).

// slots: stand-ins for what the kernel and its linker provide.
const COLS = 2u;
const UNIT = 8u; // elements that the binding's type holds
const PAGE = 1u << 19u;
const AHEAD = 1u << 22u;
struct Params { k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<u32>>;
// end slots

fn a_word_ahead(at: u32) -> u32 { return bitcast<u32>(a[min((at + AHEAD) / UNIT, arrayLength(&a) - 1u)].x); }
fn a_ahead(first: u32, row: u32) -> u32 {
    var word = 0u;
    if first == 0u && row % PAGE < COLS * p.k { word = a_word_ahead(row); }
    return word;
}
