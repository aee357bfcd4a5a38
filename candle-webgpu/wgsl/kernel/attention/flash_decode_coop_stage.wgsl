// How flash_decode_coop stages queries, keys and values in workgroup memory.

// slots: stand-ins for what flash_decode_coop.wgsl and its linker provide.
enable f16;
alias K = vec2<u32>; // two elements a word
alias V = vec2<u32>;
const SIDE = 16u;
const LANES = 32u;
const PITCH = 72u;
const ROW = 16u;
const STEP = 2u;
const HELD = 8u;
override WORKGROUP: u32 = 128u;
struct Params {
    head_dim: u32, v_dim: u32, keys: u32, rows: u32, offsets: vec4<u32>, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<K>;
@group(0) @binding(3) var<storage, read> v: array<V>;
var<workgroup> tile: array<vec4<f16>, 1152>;
var<private> k_held: array<K, HELD>;
var<private> v_held: array<V, HELD>;
fn q_start(at: u32) -> u32 { return at / 4u; }
fn q_quad(start: u32, quad: u32) -> vec4<f32> { return q[start + quad]; }
fn matrix_at(matrix: u32, strides: vec4<u32>) -> u32 { return matrix * strides.y; }
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn old_keys() -> u32 { return p.keys; } // those in k and v
fn stage_newest(matrix: u32, thread: u32) {}
fn newest_key(quad: u32) -> vec4<f32> { return vec4<f32>(); }
fn newest_value(quad: u32) -> vec4<f32> { return vec4<f32>(); }
// end slots

fn quad_of(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(vec2<f16>(unpack2x16float(words.x)), vec2<f16>(unpack2x16float(words.y)));
}

// Where a quad of a tile lies, or the one i times STEP rows below: a lane has one column of every STEPth row.
fn slot(quad: u32, i: u32) -> u32 { return (quad / ROW + i * STEP) * (PITCH / 4u) + quad % ROW; }

// Fetch a lane's quads of the 16 keys or values from j0 on. Outside of k and v they repeat the last row or quad.
fn fetch_keys(lane: u32, start: u32, j0: u32) {
    for (var i = 0u; i < HELD; i++) { k_held[i] = k[start + min(j0 + lane / ROW + i * STEP, old_keys() - 1u) * (p.k_strides.w / 4u)]; } // unroll
}

fn fetch_values(lane: u32, start: u32, j0: u32) {
    for (var i = 0u; i < HELD; i++) { v_held[i] = v[start + min(j0 + lane / ROW + i * STEP, old_keys() - 1u) * (p.v_strides.w / 4u)]; } // unroll
}

// Stage what was fetched. Columns of keys behind the last are zero.
fn stage_keys(lane: u32, at: u32, j0: u32) {
    let is_column = lane % ROW * 4u < p.head_dim;
    for (var i = 0u; i < HELD; i++) { tile[at + slot(lane, i)] = quad_of(select(K(), k_held[i], is_column)); } // unroll
    if j0 + SIDE > old_keys() { stage_rest(lane, at, j0, true); }
}

fn stage_values(lane: u32, at: u32, j0: u32) {
    for (var i = 0u; i < HELD; i++) { tile[at + slot(lane, i)] = quad_of(v_held[i]); } // unroll
    if j0 + SIDE > old_keys() { stage_rest(lane, at, j0, false); }
}

// Stages the newest key or value and zeros behind it instead of rows that are not in k and v.
fn stage_rest(lane: u32, at: u32, j0: u32, is_key: bool) {
    subgroupBarrier();
    let quads = select(p.v_dim, p.head_dim, is_key) / 4u;
    for (var i = (old_keys() - min(old_keys(), j0)) * ROW + lane; i < SIDE * ROW; i += LANES) {
        let quad = select(newest_value(i % ROW), newest_key(i % ROW), is_key);
        let here = j0 + i / ROW == old_keys() && old_keys() < p.keys && i % ROW < quads;
        tile[at + slot(i, 0u)] = select(vec4<f16>(), vec4<f16>(quad), here);
    }
}

// Stages the queries in the place of the first tile, with zeros behind the last row and column: any row may cause y to be rescaled.
fn stage_queries(thread: u32, matrix: u32, row0: u32) {
    let base = p.offsets.x + matrix_at(matrix, p.q_strides);
    let end = min(SIDE, p.rows - row0) * ROW;
    for (var i = end + thread; i < SIDE * ROW; i += WORKGROUP) { tile[slot(i, 0u)] = vec4<f16>(); }
    for (var i = thread; i < end; i += WORKGROUP) {
        let quad = q_quad(q_start(base + row_at(row0 + i / ROW, p.q_strides)), min(i % ROW, p.head_dim / 4u - 1u));
        tile[slot(i, 0u)] = select(vec4<f16>(), vec4<f16>(quad), i % ROW * 4u < p.head_dim);
    }
    stage_newest(matrix, thread);
}
