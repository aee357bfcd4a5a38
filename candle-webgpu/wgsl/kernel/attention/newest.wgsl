// What rope_flash_decode adds to flash_decode_sub and flash_decode_coop. There is one query, and batches are KV heads like others. Queries and
// the newest key are rotated as rope does it; the newest key and value are read from where they were computed, once for a workgroup.

// slots: stands for what the kernel brings.
struct Params {
    head_dim: u32, v_dim: u32, keys: u32, matrices: u32, offsets: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>,
    c_offset: u32, s_offset: u32, u_strides: vec4<u32>, t_strides: vec4<u32>, caches: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
fn rounded(v: vec4<f32>) -> vec4<f32> { return v; }
fn q_rotated(at: Place) -> vec4<f32> { return vec4<f32>(f32(at.x)); }
fn u_rotated(at: Place) -> vec4<f32> { return vec4<f32>(f32(at.x)); }
fn t_get4(at4: u32) -> vec4<f32> { return vec4<f32>(f32(at4)); }
fn k_quad(start: u32, quad: u32) -> vec4<f32> { return vec4<f32>(f32(start + quad)); }
fn v_quad(start: u32, quad: u32) -> vec4<f32> { return vec4<f32>(f32(start + quad)); }
fn w_quad_put(q: u32, four: vec4<f32>) {}
fn z_quad_put(q: u32, four: vec4<f32>) {}
override WORKGROUP: u32 = 256u;
const ROW = 64u;
// end slots

// The column of an element of a row, and where the row starts in q or u, in c and in s.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }

fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }

fn seen_by(row: u32) -> u32 { return p.keys; }

fn q_start(at: u32) -> u32 { return at; }

fn q_quad(start: u32, quad: u32) -> vec4<f32> { return rounded(q_rotated(Place(quad * 4u, start, p.c_offset, p.s_offset))); }

fn rotated_key(matrix: u32, quad: u32) -> vec4<f32> {
    return rounded(u_rotated(Place(quad * 4u, p.u_strides.z + matrix * p.u_strides.y, p.c_offset, p.s_offset)));
}

fn value(matrix: u32, quad: u32) -> vec4<f32> { return t_get4((p.t_strides.z + matrix * p.t_strides.y) / 4u + quad); }

var<workgroup> newest: array<vec4<f32>, 2u * ROW>;

fn stage_newest(matrix: u32, thread: u32) {
    // The last threads, since the first ones stage the queries.
    let i = WORKGROUP - 1u - thread;
    if i < p.head_dim / 4u { newest[i] = rotated_key(matrix, i); }
    if i >= ROW && i - ROW < p.v_dim / 4u { newest[i] = value(matrix, i - ROW); }
}

// Keys in k and v.
fn old_keys() -> u32 { return p.keys - 1u; }

fn newest_key(quad: u32) -> vec4<f32> { return newest[quad]; }

fn newest_value(quad: u32) -> vec4<f32> { return newest[ROW + quad]; }

// The cache is read in any case: loads in branches wait for each other.
fn key_quad(start: u32, step: u32, key: u32, quad: u32, newest: vec4<f32>) -> vec4<f32> {
    return select(k_quad(start + min(key, p.keys - 2u) * step, quad), newest, key == p.keys - 1u);
}

fn value_quad(start: u32, step: u32, key: u32, quad: u32, newest: vec4<f32>) -> vec4<f32> {
    return select(v_quad(start + min(key, p.keys - 2u) * step, quad), newest, key == p.keys - 1u);
}

fn keep_key(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {
    w_quad_put(p.caches.x + matrix * p.caches.y + key * p.k_strides.w / 4u + quad, four);
}

fn keep_value(matrix: u32, key: u32, quad: u32, four: vec4<f32>) {
    z_quad_put(p.caches.z + matrix * p.caches.w + key * p.v_strides.w / 4u + quad, four);
}
