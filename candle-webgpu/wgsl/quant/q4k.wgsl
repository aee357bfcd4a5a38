// Q4_K: blocks of 256, d s n - e t with n in four bits and s, t in six, shared by 32 elements: unit v is the low
// (even v) or high half (odd v) of bytes 32 (v / 2) .. + 32 of n.
// A block in its GGUF layout: (d, e) 4 bytes | scales 12 bytes | n 128 bytes.

// slots: stand-ins for the declarations of a kernel with a quantized operand `w`, and of quant/unit.wgsl.
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn unit_scales_mins(head: vec4<u32>, late: bool) -> vec2<u32> { return head.xy; }
fn unit_byte(bytes: u32, i: u32) -> i32 { return i32(bytes); }
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { n: array<vec4<u32>, 4>, head: vec4<u32> }

fn w_load(u: u32) -> Raw {
    let base = u / 8u * 9u;
    let n = base + 1u + u % 8u;
    return Raw(array(w_at(n), w_at(n + 1u), w_at(n + 2u), w_at(n + 3u)), w_at(base));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    let de = unpack2x16float(r.head.x);
    let st = unit_scales_mins(r.head, u % 8u > 0u);
    let n = j / 2u * 2u;
    let shift = vec4<u32>(j % 2u * 4u);
    return Parts(
        unit_nibbles(r.n[n] >> shift),
        unit_nibbles(r.n[n + 1u] >> shift),
        vec2<i32>(unit_byte(st.x, j)),
        vec2<i32>(unit_byte(st.y, j)),
        vec2<f32>(de.x, -de.y),
    );
}
