// Q5_K: blocks of 256, d s n - e t with n in five bits and s, t in six, shared by 32 elements: the low four bits as
// in Q4_K, the fifth from bit v of the bytes of h.
// A block as it is: (d, e) 4 bytes | scales 12 bytes | h 32 bytes | n 128 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn unit_scale_min(head: vec4<u32>, v: u32) -> vec2<f32> { return vec2<f32>(head.xy); }
fn unit_nibbles(bits: vec4<u32>) -> vec4<u32> { return bits; }
// end slots

struct Raw { n: array<vec4<u32>, 2>, h: array<vec4<u32>, 2>, head: vec4<u32> }

fn w_load(u: u32) -> Raw {
    let base = u / 8u * 11u;
    let n = base + 3u + u % 8u;
    return Raw(array(w_at(n), w_at(n + 1u)), array(w_at(base + 1u), w_at(base + 2u)), w_at(base));
}

fn w_unpack(r: Raw, u: u32, j: u32) -> Unit {
    let de = unpack2x16float(r.head.x) * unit_scale_min(r.head, u % 8u + j);
    let shift = vec4<u32>(j * 4u);
    let fifth = vec4<u32>(u % 8u + j);
    let ones = vec4<u32>(0x01010101u);
    return Unit(
        unit_nibbles(r.n[0] >> shift) | (((r.h[0] >> fifth) & ones) << vec4<u32>(4u)),
        unit_nibbles(r.n[1] >> shift) | (((r.h[1] >> fifth) & ones) << vec4<u32>(4u)),
        de.xx,
        -de.yy,
    );
}
