// The entry point of GEMV kernels whose threads compute their own columns, without a reduction.

// slots: stand-ins for what the kernel's file provides.
override WORKGROUP: u32 = 64u;
fn run(ids: Ids, group: u32) {}
// end slots

const TREE = false;
struct Ids { thread: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return v; }
fn sum_one(v: f32) -> f32 { return v; }
fn leads(ids: Ids) -> bool { return true; }
fn part_at(ids: Ids) -> u32 { return ids.thread; }
fn parts(ids: Ids) -> u32 { return 1u; }
fn meet() {}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    run(Ids(thread), id.y * count.x + id.x);
}
