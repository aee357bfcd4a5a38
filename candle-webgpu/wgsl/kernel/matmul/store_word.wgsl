// out_put(at, count, v): stores the first `count` (1 to 4) values of v from element `at` on, each a word.

// slots: stand-ins for what the linker provides.
fn out_set(at: u32, v: f32) {}
// end slots

fn out_put(at: u32, count: u32, v: vec4<f32>) {
    out_set(at, v.x);
    if count > 1u { out_set(at + 1u, v.y); }
    if count > 2u { out_set(at + 2u, v.z); }
    if count > 3u { out_set(at + 3u, v.w); }
}
