// What layer_norm and add_norm share.

// slots: declared by the kernel.
var<workgroup> partial: array<f32, 256>;
// end slots

// The sum over a thread group, returned to all of its threads. Ends with a barrier, so that it can be called again.
fn thread_group_sum(thread: u32, thread_group: u32, v: vec4<f32>) -> f32 {
    let lane = thread % thread_group;
    partial[thread] = (v.x + v.y) + (v.z + v.w);
    workgroupBarrier();
    for (var half = thread_group / 2u; half > 0u; half /= 2u) {
        if lane < half { partial[thread] += partial[thread + half]; }
        workgroupBarrier();
    }
    let sum = partial[thread - lane];
    workgroupBarrier();
    return sum;
}
