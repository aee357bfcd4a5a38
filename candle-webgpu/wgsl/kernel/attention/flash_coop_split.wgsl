// Multiplications of flash_coop in f32 that may not be rounded. An element is the sum of two numbers of f16, its high and its low part, with
// an error of 2^-23. Products of low parts are left out. Cooperative matrices truncate their sums, so only those of 16 keys are theirs.

// slots: stand-ins for what flash_coop.wgsl and its linker provide.
enable f16;
enable wgpu_cooperative_matrix;
const D = 64u;
const KEYS = 16u;
const ROWS = 64u;
const PITCH = 72u;
const SCORE_PITCH = 24u;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Acc = coop_mat16x16<f32, C>;
struct Params { head_dim: u32 }
@group(0) @binding(0) var<uniform> p: Params;
var<workgroup> tile: array<vec4<f16>, 1152>;
var<workgroup> weight: array<vec4<f16>, 768>;
var<private> q_tiles: array<Left, D / 8u>;
var<private> products: array<Acc, 1>;
var<private> acc: array<Acc, D / 16u>;
var<private> k_by: f32;
var<private> v_by: f32;
fn query_tile(row: u32, c: u32) -> Left { return coopLoadT<Left>(&tile[(row * PITCH + c) / 4u], PITCH / 4u); }
fn key_tile(j: u32, c: u32) -> Right { return coopLoad<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn value_tile(j: u32, c: u32) -> Right { return coopLoadT<Right>(&tile[(j * PITCH + c) / 4u], PITCH / 4u); }
fn weight_tile(row: u32, j: u32) -> Left { return coopLoadT<Left>(&weight[(row * SCORE_PITCH + j) / 4u], SCORE_PITCH / 4u); }
fn query_quad(i: u32, base: u32, row0: u32) -> vec4<f32> { return vec4<f32>(); }
fn slot(i: u32) -> u32 { return i; }
fn find_scales(thread: u32, i: u32, key: vec4<f32>, value: vec4<f32>) {}
// end slots

// x rounded to the bits of f16, in integers: NVIDIA's compiler takes f32(f16(x)) for x.
fn high_part(x: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>((bitcast<vec4<u32>>(x) + vec4<u32>(0x1000u)) & vec4<u32>(0xffffe000u)); }

fn put_parts(at: u32, x: vec4<f32>) {
    tile[at] = vec4<f16>(high_part(x));
    tile[KEYS * PITCH / 4u + at] = vec4<f16>(x - high_part(x));
}

fn put_key(at: u32, x: vec4<f32>) { put_parts(at, x * k_by); }
fn put_value(at: u32, x: vec4<f32>) { put_parts(2u * KEYS * PITCH / 4u + at, x * v_by); }

fn put_weights(at: u32, w: vec4<f32>) {
    weight[at] = vec4<f16>(high_part(w));
    weight[ROWS * SCORE_PITCH / 4u + at] = vec4<f16>(w - high_part(w));
}

// Stages the high parts of the rows of q, and then the low ones, with zeros behind the last column.
fn load_queries(thread: u32, base: u32, row0: u32, row16: u32) {
    var held: array<vec4<f32>, D / 8u>;
    for (var i = 0u; i < D / 8u; i++) { held[i] = query_quad(thread + i * 128u, base, row0); } // unroll
    for (var i = 0u; i < D / 16u; i++) { // unroll
        find_scales(thread, i, held[i], held[i + D / 16u]);
        let here = thread % (D / 4u) * 4u < p.head_dim;
        held[i] = select(vec4<f32>(), held[i] * k_by, here);
        held[i + D / 16u] = select(vec4<f32>(), held[i + D / 16u] * v_by, here);
    }
    for (var part = 0u; part < 2u; part++) { // unroll
        for (var i = 0u; i < D / 8u; i++) { // unroll
            let x = held[i];
            tile[slot(thread + i * 128u)] = vec4<f16>(select(x - high_part(x), high_part(x), part == 0u));
        }
        workgroupBarrier();
        for (var c = 0u; c < D; c += 16u) { q_tiles[(part * D + c) / 16u] = query_tile(row16, c); } // unroll
        workgroupBarrier();
    }
}

var<private> weights: array<Left, 2>; // high parts, low parts
var<private> values: array<Right, D / 16u>; // of half of y's columns, likewise

fn multiply_keys() {
    var s: Acc;
    var rest: Acc;
    for (var c = 0u; c < D; c += 16u) { // unroll
        let keys = key_tile(0u, c);
        s = coopMultiplyAdd(q_tiles[c / 16u], keys, s);
        rest = coopMultiplyAdd(q_tiles[c / 16u], key_tile(KEYS, c), rest);
        rest = coopMultiplyAdd(q_tiles[(D + c) / 16u], keys, rest);
    }
    products[0] = s + rest;
}

fn load_weights(row: u32) {
    for (var part = 0u; part < 2u; part++) { weights[part] = weight_tile(part * ROWS + row, 0u); } // unroll
}

fn load_values(column: u32) {
    for (var part = 0u; part < 2u; part++) { // unroll
        for (var c = 0u; c < D / 2u; c += 16u) { values[(part * D / 2u + c) / 16u] = value_tile(part * KEYS, column + c); } // unroll
    }
}

fn add_values(column: u32) {
    for (var c = 0u; c < D / 2u; c += 16u) { // unroll
        let y_at = (column + c) / 16u;
        var sum: Acc;
        sum = coopMultiplyAdd(weights[1], values[c / 16u], sum);
        sum = coopMultiplyAdd(weights[0], values[(D / 2u + c) / 16u], sum);
        sum = coopMultiplyAdd(weights[0], values[c / 16u], sum);
        acc[y_at] = acc[y_at] + sum;
    }
}
