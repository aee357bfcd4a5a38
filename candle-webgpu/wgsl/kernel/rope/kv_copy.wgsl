// Where rope_kv_cache writes the rotated keys (`w_place`), and the copies beside them (`copy_part`). The linker takes single functions of
// this file, and `copy_part` once for each copy with the number of its part and its buffers.

// slots: stands for what the kernels bring.
struct Part { n: u32, run: u32, source: u32, place: u32, source_stride: u32, place_stride: u32, pad: vec2<u32> }
struct Params { parts: array<Part, 4> }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> source_buffer: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> place_buffer: array<vec4<f32>>;
const PART = 1u;
// end slots

fn w_place(q: u32) -> u32 {
    let part = p.parts[0];
    let row = q / part.run;
    let col = q - row * part.run;
    return part.place + row * part.place_stride + col;
}

fn copy_part(q: u32) {
    let part = p.parts[PART];
    let row = q / part.run;
    let col = q - row * part.run;
    place_buffer[part.place + row * part.place_stride + col] = source_buffer[part.source + row * part.source_stride + col];
}
