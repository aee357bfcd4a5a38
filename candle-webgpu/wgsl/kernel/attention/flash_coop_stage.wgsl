// How flash_coop reads rows of q, k and v, and stages those of k and v in workgroup memory.

// slots: stand-ins for what flash_coop.wgsl and its linker provide.
enable f16;
const D = 64u;
const KEYS = 32u;
const PITCH = 72u;
alias Quad = vec4<f16>;
struct Params {
    head_dim: u32, v_dim: u32, queries: u32, keys: u32, rows: u32, q_strides: vec4<u32>, k_strides: vec4<u32>, v_strides: vec4<u32>,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> q: array<Quad>;
@group(0) @binding(2) var<storage, read_write> k: array<Quad>;
@group(0) @binding(3) var<storage, read_write> v: array<Quad>;
var<workgroup> tile: array<vec4<f16>, 1152>;
fn row_at(row: u32, strides: vec4<u32>) -> u32 { return row * strides.z; }
fn find_scales(thread: u32, i: u32, key: Quad, value: Quad) {}
fn put_key(at: u32, x: Quad) { tile[at] = x; }
fn put_value(at: u32, x: Quad) { tile[576u + at] = x; }
// end slots

const HELD = KEYS * D / 4u / 128u; // quads of k, and of v, that a thread stages
var<private> k_held: array<Quad, HELD>;
var<private> v_held: array<Quad, HELD>;

// Quad i of the KEYS rows from j0 on. Outside of k it repeats the last key or quad: whoever zeroes it here waits for the load.
fn key_quad(i: u32, base: u32, j0: u32) -> Quad {
    let key = min(j0 + i / (D / 4u), p.keys - 1u);
    return k[(base + key * p.k_strides.w + min(i % (D / 4u) * 4u, p.head_dim - 4u)) / 4u];
}

fn value_quad(i: u32, base: u32, j0: u32) -> Quad {
    let key = min(j0 + i / (D / 4u), p.keys - 1u);
    return v[(base + key * p.v_strides.w + min(i % (D / 4u) * 4u, p.v_dim - 4u)) / 4u];
}

// Fetches a thread's quads of the keys from k_j on and the values from v_j on.
fn fetch(thread: u32, k_base: u32, v_base: u32, k_j: u32, v_j: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        k_held[i] = key_quad(thread + i * 128u, k_base, k_j);
        v_held[i] = value_quad(thread + i * 128u, v_base, v_j);
    }
}

// Stages the quads that were fetched.
fn put_held(thread: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        let at = slot(thread + i * 128u);
        find_scales(thread, i, k_held[i], v_held[i]);
        put_key(at, k_held[i]);
        put_value(at, v_held[i]);
    }
}

// The same, with zeros behind the last column of k, and behind the last value where values are those from v_j on.
fn stage(thread: u32, v_j: u32) {
    put_held(thread);
    if p.head_dim == D && v_j + KEYS <= p.keys { return; }
    for (var i = 0u; i < HELD; i++) {
        let here = thread + i * 128u;
        if here % (D / 4u) * 4u >= p.head_dim { put_key(slot(here), Quad()); }
        if v_j + here / (D / 4u) >= p.keys { put_value(slot(here), Quad()); }
    }
}

fn query_quad(i: u32, base: u32, row0: u32) -> Quad {
    let row = min(row0 + i / (D / 4u), p.rows - 1u);
    let at = base + row_at(row, p.q_strides);
    return q[(at + min(i % (D / 4u) * 4u, p.head_dim - 4u)) / 4u];
}

// Where quad i of the staged rows lies.
fn slot(i: u32) -> u32 { return i / (D / 4u) * (PITCH / 4u) + i % (D / 4u); }
