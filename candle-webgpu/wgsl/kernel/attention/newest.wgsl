// What rope_flash_decode adds to flash_decode_sub. Queries and the newest key are rotated where they are read, as rope does it; the newest
// key and value are read from where they were computed. Workgroups behind those of the rows write the KV cache.

// slots: stands for what the kernel brings.
struct Params {
    head_dim: u32, v_dim: u32, keys: u32, kv_heads: u32, matrices: u32, offsets: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>,
    c_offset: u32, s_offset: u32, u_strides: vec4<u32>, a_strides: vec4<u32>, caches: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
fn rounded(v: vec4<f32>) -> vec4<f32> { return v; }
fn q_rotated(at: Place) -> vec4<f32> { return vec4<f32>(f32(at.x)); }
fn u_rotated(at: Place) -> vec4<f32> { return vec4<f32>(f32(at.x)); }
fn a_get4(at4: u32) -> vec4<f32> { return vec4<f32>(f32(at4)); }
fn k_four(base: u32, c: u32) -> vec4<f32> { return vec4<f32>(f32(base + c)); }
fn v_four(base: u32, c: u32) -> vec4<f32> { return vec4<f32>(f32(base + c)); }
fn w_quad_put(q: u32, four: vec4<f32>) {}
fn z_quad_put(q: u32, four: vec4<f32>) {}
fn w_copy(to: u32, source: u32) {}
fn z_copy(to: u32, source: u32) {}
fn first_written() -> u32 { return 0u; }
// end slots

// The column of an element of a row, and where the row starts in q or u, in c and in s.
struct Place { col: u32, x: u32, c: u32, s: u32 }

fn q_four(base: u32, c: u32) -> vec4<f32> { return rounded(q_rotated(Place(c, base, p.c_offset, p.s_offset))); }

// `at`: batch, KV head.
fn newest_key(at: vec2<u32>, c: u32) -> vec4<f32> {
    return rounded(u_rotated(Place(c, p.u_strides.z + dot(at, p.u_strides.xy), p.c_offset, p.s_offset)));
}

fn newest_value(at: vec2<u32>, c: u32) -> vec4<f32> { return a_get4((p.a_strides.z + dot(at, p.a_strides.xy) + c) / 4u); }

// The cache is read in any case: loads in branches wait for each other.
fn key_four(base: u32, key: u32, c: u32, newest: vec4<f32>) -> vec4<f32> {
    return select(k_four(base + min(key, p.keys - 2u) * p.k_strides.w, c), newest, key == p.keys - 1u);
}

fn value_four(base: u32, key: u32, c: u32, newest: vec4<f32>) -> vec4<f32> {
    return select(v_four(base + min(key, p.keys - 2u) * p.v_strides.w, c), newest, key == p.keys - 1u);
}

// Writes quad i of the keys, or behind them of the values: all of them to new caches, the newest in place.
fn cache_quad(i: u32) {
    let written = p.keys - first_written();
    let quads = vec2<u32>(p.head_dim, p.v_dim) / 4u;
    let of_keys = p.matrices * written * quads.x;
    let is_key = i < of_keys;
    let q = select(i - of_keys, i, is_key);
    let row_quads = select(quads.y, quads.x, is_key);
    let row = q / row_quads;
    let col = q - row * row_quads;
    let matrix = row / written;
    if matrix >= p.matrices { return; }
    let at = vec2<u32>(matrix / p.kv_heads, matrix % p.kv_heads);
    let key = first_written() + row - matrix * written;
    if is_key {
        let to = p.caches.x + matrix * p.caches.y + key * p.k_strides.w / 4u + col;
        if key == p.keys - 1u { w_quad_put(to, newest_key(at, col * 4u)); return; }
        w_copy(to, (p.offsets.y + dot(at, p.k_strides.xy) + key * p.k_strides.w) / 4u + col);
    } else {
        let to = p.caches.z + matrix * p.caches.w + key * p.v_strides.w / 4u + col;
        if key == p.keys - 1u { z_quad_put(to, newest_value(at, col * 4u)); return; }
        z_copy(to, (p.offsets.z + dot(at, p.v_strides.xy) + key * p.v_strides.w) / 4u + col);
    }
}
