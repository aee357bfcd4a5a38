// The entry point of GEMV kernels that reduce by subgroups; one thread then adds the sums of the subgroups. On every known adapter, a
// subgroup of a one-dimensional workgroup is a contiguous range of its threads. Subgroup builtins are arguments of `main` itself:
// naga's HLSL writer does not find them in a struct.

// slots: stand-ins for what the kernel's file provides.
override WORKGROUP: u32 = 64u;
fn run(ids: Ids, group: u32) {}
// end slots

const TREE = false;
struct Ids { thread: u32, lane: u32, size: u32 }
fn sum_of(v: vec4<f32>) -> vec4<f32> { return subgroupAdd(v); }
fn sum_one(v: f32) -> f32 { return subgroupAdd(v); }
fn leads(ids: Ids) -> bool { return ids.lane == 0u; }
fn part_at(ids: Ids) -> u32 { return ids.thread / ids.size; }
fn parts(ids: Ids) -> u32 { return (WORKGROUP + ids.size - 1u) / ids.size; }
fn meet() { workgroupBarrier(); }

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) count: vec3<u32>,
) {
    run(Ids(thread, lane, size), id.y * count.x + id.x);
}
