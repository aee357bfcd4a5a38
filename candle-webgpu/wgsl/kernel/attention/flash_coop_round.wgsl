// Multiplications of flash_coop whose operands are rounded to f16.

// slots: stand-ins for what flash_coop.wgsl and its linker provide.
enable f16;
enable wgpu_cooperative_matrix;
const D = 64u;
const KEYS = 32u;
const PITCH = 72u;
const HELD = 4u;
alias Quad = vec4<f16>;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Acc = coop_mat16x16<f32, C>;
struct Params { head_dim: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<workgroup> tile: array<vec4<f16>, 1152>;
var<workgroup> weight: array<vec4<f16>, 640>;
var<private> q_tiles: array<Left, D / 16u>;
var<private> products: array<Acc, KEYS / 16u>;
var<private> acc: array<Acc, D / 16u>;
var<private> k_held: array<Quad, HELD>;
var<private> v_held: array<Quad, HELD>;
fn query_tile(row: u32, c: u32) -> Left { return coopLoadT<Left>(&tile[(row * PITCH + c) / 4u], PITCH / 4u); }
fn key_tile(j: u32, c: u32) -> Right { return coopLoad<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn value_tile(j: u32, c: u32) -> Right { return coopLoadT<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn weight_tile(row: u32, j: u32) -> Left { return coopLoadT<Left>(&weight[(row * 40u + j) / 4u], 10u); }
fn query_quad(i: u32, base: u32, row0: u32) -> Quad { return Quad(); }
fn narrow_key(x: Quad) -> vec4<f16> { return x; }
fn narrow_value(x: Quad) -> vec4<f16> { return x; }
fn put_held(thread: u32) {}
fn slot(i: u32) -> u32 { return i; }
// end slots

fn put_key(at: u32, x: Quad) { tile[at] = narrow_key(x); }
fn put_value(at: u32, x: Quad) { tile[KEYS * PITCH / 4u + at] = narrow_value(x); }
fn put_weights(at: u32, w: vec4<f32>) { weight[at] = vec4<f16>(w); }

// Stages the rows of q, the first half in the place of keys, with zeros behind the last column.
fn load_queries(thread: u32, base: u32, row0: u32, row16: u32) {
    for (var i = 0u; i < HELD; i++) { // unroll
        k_held[i] = query_quad(thread + i * 128u, base, row0);
        v_held[i] = query_quad(thread + i * 128u, base, row0 + KEYS);
    }
    put_held(thread);
    for (var i = 0u; i < 2u * HELD && p.head_dim < D; i++) {
        let here = thread + i * 128u;
        if here % (D / 4u) * 4u >= p.head_dim { tile[slot(here)] = vec4<f16>(); }
    }
    workgroupBarrier();
    for (var c = 0u; c < D; c += 16u) { q_tiles[c / 16u] = query_tile(row16, c); } // unroll
}

var<private> weights: array<Left, KEYS / 16u>;
var<private> values: array<Right, KEYS / 16u * D / 32u>; // of half of y's columns: AMD's compiler spills those of all

fn multiply_keys() {
    for (var j = 0u; j < KEYS; j += 16u) { products[j / 16u] = Acc(); } // unroll
    for (var c = 0u; c < D; c += 16u) { // unroll
        for (var j = 0u; j < KEYS; j += 16u) { // unroll
            products[j / 16u] = coopMultiplyAdd(q_tiles[c / 16u], key_tile(j, c), products[j / 16u]);
        }
    }
}

fn load_weights(row: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { weights[j / 16u] = weight_tile(row, j); } // unroll
}

fn load_values(column: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { // unroll
        for (var c = 0u; c < D / 2u; c += 16u) { values[(j * D / 32u + c) / 16u] = value_tile(j, column + c); } // unroll
    }
}

fn add_values(column: u32) {
    for (var j = 0u; j < KEYS; j += 16u) { // unroll
        for (var c = 0u; c < D / 2u; c += 16u) { // unroll
            let y_at = (column + c) / 16u;
            acc[y_at] = coopMultiplyAdd(weights[j / 16u], values[(j * D / 32u + c) / 16u], acc[y_at]);
        }
    }
}
