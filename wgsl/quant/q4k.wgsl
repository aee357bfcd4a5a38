// Q4_K: blocks of 256, d s n - e t with n in four bits and s, t in six, shared by 32 elements: unit v is the low
// (even v) or high half (odd v) of bytes 32 (v / 2) .. + 32 of n.
// A block as it is: (d, e) 4 bytes | scales 12 bytes | n 128 bytes.

// slots: what a kernel with a quantized operand `w` brings, and lib/unit.wgsl.
struct Unit { low: vec4<u32>, high: vec4<u32>, scale: vec2<f32>, shift: vec2<f32> }
fn w_at(i: u32) -> vec4<u32> { return vec4<u32>(i); }
fn unit_scale_min(head: vec4<u32>, v: u32) -> vec2<f32> { return vec2<f32>(head.xy); }
// end slots

fn w_unit(u: u32) -> Unit {
    let v = u % 8u;
    let base = u / 8u * 9u;
    let head = w_at(base);
    let de = unpack2x16float(head.x) * unit_scale_min(head, v);
    let shift = vec4<u32>(v % 2u * 4u);
    let n = base + 1u + v / 2u * 2u;
    return Unit(
        (w_at(n) >> shift) & vec4<u32>(0x0f0f0f0fu),
        (w_at(n + 1u) >> shift) & vec4<u32>(0x0f0f0f0fu),
        de.xx,
        -de.yy,
    );
}
