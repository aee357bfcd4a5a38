// How rope_flash_decode copies the old keys, or the old values, to a new cache. The linker takes `copy_rows` for either.

// slots: stands for what the kernel brings.
alias K = vec4<f32>;
struct Params { keys: u32, matrices: u32 }
struct Rows { quads: u32, source: u32, place: u32, source_matrix: u32, place_matrix: u32, step: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> old_buffer: array<K>;
@group(0) @binding(2) var<storage, read_write> new_buffer: array<K>;
override WORKGROUP: u32 = 256u;
const COPIED = 8u;
// end slots

// A thread owns a quad of every `lanes`th row.
fn copy_rows(group: u32, thread: u32, rows: Rows) {
    let lanes = WORKGROUP / rows.quads;
    let lane = thread / rows.quads;
    let col = thread - lane * rows.quads;
    let old = p.keys - 1u;
    let end = p.matrices * old;
    let first = group * COPIED * lanes + lane;
    var quads: array<K, COPIED>;
    for (var i = 0u; i < COPIED; i++) {
        let row = min(first + i * lanes, end - 1u);
        let matrix = row / old;
        quads[i] = old_buffer[rows.source + matrix * rows.source_matrix + (row - matrix * old) * rows.step + col];
    }
    for (var i = 0u; i < COPIED; i++) {
        let row = first + i * lanes;
        if lane >= lanes || row >= end { break; }
        let matrix = row / old;
        new_buffer[rows.place + matrix * rows.place_matrix + (row - matrix * old) * rows.step + col] = quads[i];
    }
}
