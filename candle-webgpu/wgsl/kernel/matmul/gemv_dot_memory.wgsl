// gemv_dot without subgroups: the kernel adds up in workgroup memory.

// slots: nothing.
// end slots

fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> { return v; }
fn one_of_thread_group(v: f32) -> f32 {
    return v;
}
