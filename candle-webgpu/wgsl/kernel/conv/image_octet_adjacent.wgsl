// eight(at, w): eight adjacent elements of x from `at` on, the first in column w of a line. They lie in four or five words; parts of
// words past the ends of the buffer are masked.

// slots: stand-ins for gemm_coop_image.wgsl.
alias Octet = vec4<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
fn seen(w: u32, j: u32) -> u32 { return 0xffffffffu; }
// end slots

fn word(at: u32) -> u32 { return b[min(at, arrayLength(&b) - 1u)]; }
fn eight(at: u32, w: u32) -> Octet {
    let first = bitcast<u32>(bitcast<i32>(at) >> 1u);
    let words = Octet(word(first), word(first + 1u), word(first + 2u), word(first + 3u));
    let across = (words >> vec4<u32>(16u)) | (vec4<u32>(words.yzw, word(first + 4u)) << vec4<u32>(16u));
    return select(words, across, (at & 1u) == 1u) & Octet(seen(w, 0u), seen(w, 1u), seen(w, 2u), seen(w, 3u));
}
