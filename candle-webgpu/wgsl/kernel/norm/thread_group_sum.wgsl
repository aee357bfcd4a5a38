// What rms_norm, layer_norm and add_norm share.

// slots: declared by the kernel.
var<workgroup> partial: array<f32, 256>;
// end slots

// The sum over a thread group, returned to all of its threads. Ends with a barrier, so that it can be called again. A step of the loop adds as
// two steps of halves would, and spares the barrier between them.
fn thread_group_sum(thread: u32, thread_group: u32, v: vec4<f32>) -> f32 {
    let lane = thread % thread_group;
    partial[thread] = (v.x + v.y) + (v.z + v.w);
    workgroupBarrier();
    for (var left = thread_group; left > 1u; left /= 4u) {
        let half = left / 2u;
        if lane < max(left / 4u, 1u) {
            var sum = partial[thread] + partial[thread + half];
            if left > 2u { sum += partial[thread + left / 4u] + partial[thread + left / 4u + half]; }
            partial[thread] = sum;
        }
        workgroupBarrier();
    }
    let sum = partial[thread - lane];
    workgroupBarrier();
    return sum;
}
