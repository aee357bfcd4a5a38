// Q8_K: blocks of 256, d q with q in eight bits and d in f32; the sums of 16 q are unused.
// A group of 4 blocks: d 4 x 4 bytes | q 4 x 256 bytes | sums 4 x 32 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn w_word(i: u32) -> u32 { return i; }
// end slots

struct Raw { q: array<vec4<u32>, 2>, d: u32 }

fn w_load(u: u32) -> Raw {
    let block = u / 8u % 4u;
    let base = u / 32u * 73u;
    let q = base + 1u + block * 16u + u % 8u * 2u;
    return Raw(array(w_at(q), w_at(q + 1u)), w_word(base * 4u + block));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    return Parts(r.q[0], r.q[1], vec2<i32>(1i), vec2<i32>(), vec2<f32>(bitcast<f32>(r.d), 0.0));
}
