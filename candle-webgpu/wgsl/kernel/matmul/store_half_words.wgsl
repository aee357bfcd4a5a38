// out_put(at, count, v): stores the first `count` (1 to 4) values of v from element `at` on, two to a word. Words inside the range are
// stored whole and those at its ends by halves, so that threads can write neighbouring elements at the same time.

// slots: stand-ins for what the linker provides.
@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
fn out_set(at: u32, v: f32) {}
fn f16_word(v: vec4<f32>) -> u32 { return pack2x16float(v.xy); }
// end slots

fn out_pair(at: u32, count: u32, v: vec2<f32>) {
    if count > 1u && at % 2u == 0u {
        atomicStore(&out[at / 2u], f16_word(v.xyxy));
    } else {
        if count > 0u { out_set(at, v.x); }
        if count > 1u { out_set(at + 1u, v.y); }
    }
}
fn out_put(at: u32, count: u32, v: vec4<f32>) {
    if at % 2u == 0u {
        out_pair(at, min(count, 2u), v.xy);
        out_pair(at + 2u, max(count, 2u) - 2u, v.zw);
    } else {
        out_set(at, v.x);
        out_pair(at + 1u, min(count, 3u) - 1u, v.yz);
        if count > 3u { out_set(at + 3u, v.w); }
    }
}
