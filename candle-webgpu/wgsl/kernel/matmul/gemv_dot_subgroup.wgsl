// Sums over a thread group of gemv_dot by shuffles: on every known adapter, a subgroup of a one-dimensional workgroup is a contiguous
// range of its threads. thread_group_sum is valid in lane 0; with four columns, each exchange halves the columns of a lane.

// slots: stand-ins for what gemv_dot.wgsl provides.
override THREAD_GROUP: u32 = 32u;
// end slots

fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> {
    var sum = v.xy;
    for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { sum += subgroupShuffleXor(sum, far); }
    return vec4<f32>(sum, sum);
}
fn thread_group_sum4(v: vec4<f32>, lane: u32) -> vec4<f32> {
    let upper = (lane & (THREAD_GROUP / 2u)) > 0u;
    let two = select(v.xy, v.zw, upper) + subgroupShuffleXor(select(v.zw, v.xy, upper), THREAD_GROUP / 2u);
    let odd = (lane & (THREAD_GROUP / 4u)) > 0u;
    var one = select(two.x, two.y, odd) + subgroupShuffleXor(select(two.y, two.x, odd), THREAD_GROUP / 4u);
    for (var far = THREAD_GROUP / 8u; far > 0u; far /= 2u) { one += subgroupShuffleXor(one, far); }
    let pair = vec2<f32>(one, subgroupShuffleXor(one, THREAD_GROUP / 4u));
    return vec4<f32>(pair, subgroupShuffleXor(pair, THREAD_GROUP / 2u));
}
fn one_of_thread_group(v: f32) -> f32 {
    var sum = v;
    for (var far = THREAD_GROUP / 2u; far > 0u; far /= 2u) { sum += subgroupShuffleXor(sum, far); }
    return sum;
}
