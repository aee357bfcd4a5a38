// a_eight(row, k): eight packed elements of a row from k on, by one load of 16 bytes.

// slots: stand-ins for what the kernel and its linker provide.
struct Eight { low: vec4<f32>, high: vec4<f32> }
@group(0) @binding(1) var<storage, read> a: array<A>;
fn f16_unpack(q: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(q.x), unpack2x16float(q.y)); }
// end slots

alias A = vec4<u32>;
fn a_eight(row: u32, k: u32) -> Eight {
    let words = a[(row + k) / 8u];
    return Eight(f16_unpack(words.xy), f16_unpack(words.zw));
}
