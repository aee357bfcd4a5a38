// Workgroups of rope_flash_decode that write the KV cache: first the newest rows, then, in new caches, the old ones.

// slots: stands for what the kernel brings.
struct Params { head_dim: u32, v_dim: u32, keys: u32, matrices: u32, offsets: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>, caches: vec4<u32> }
@group(0) @binding(0) var<uniform> p: Params;
override WORKGROUP: u32 = 256u;
fn rotated_key(matrix: u32, quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn value(matrix: u32, quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn keep_key(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
fn keep_value(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {}
fn copy_keys(group: u32, thread: u32, rows: Rows) {}
fn copy_values(group: u32, thread: u32, rows: Rows) {}
const COPIED = 8u;
// end slots

// Quads of a row, the first quad in the old cache and in the new one, the quads of a matrix in each, and between two rows.
struct Rows { quads: u32, source: u32, place: u32, source_matrix: u32, place_matrix: u32, step: u32 }

fn write_caches(group: u32, thread: u32) {
    let keys = Rows(p.head_dim / 4u, p.offsets.y / 4u, p.caches.x, p.k_strides.y / 4u, p.caches.y, p.k_strides.w / 4u);
    let values = Rows(p.v_dim / 4u, p.offsets.z / 4u, p.caches.z, p.v_strides.y / 4u, p.caches.w, p.v_strides.w / 4u);
    let newest_groups = (p.matrices * (keys.quads + values.quads) + WORKGROUP - 1u) / WORKGROUP;
    if group < newest_groups {
        write_newest(group * WORKGROUP + thread, vec2<u32>(keys.quads, values.quads));
        return;
    }
    let copied = COPIED * (WORKGROUP / keys.quads);
    let of_keys = newest_groups + (p.matrices * (p.keys - 1u) + copied - 1u) / copied;
    if group < of_keys { copy_keys(group - newest_groups, thread, keys); } else { copy_values(group - of_keys, thread, values); }
}

// `quads`: of a row of keys, and of values.
fn write_newest(i: u32, quads: vec2<u32>) {
    let of_keys = p.matrices * quads.x;
    let is_key = i < of_keys;
    let q = select(i - of_keys, i, is_key);
    let matrix = q / select(quads.y, quads.x, is_key);
    if matrix >= p.matrices { return; }
    if is_key {
        let col = q - matrix * quads.x;
        keep_key(matrix, p.keys - 1u, col, rotated_key(matrix, col));
    } else {
        let col = q - matrix * quads.y;
        keep_value(matrix, p.keys - 1u, col, value(matrix, col));
    }
}
