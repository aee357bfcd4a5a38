// Operands of flash_coop in bf16 and f32. Rows of q, k and v are divided by powers of two, their scales, so that they fit the range of f16.
// Scores are multiplied by the scales of q and k, weights by those of v: the maximum that weights are relative to is that of the products.

// slots: as it stands this file is the case of f32.
enable f16;
const D = 64u;
alias Quad = vec4<f32>;
fn wide(x: Quad) -> vec4<f32> { return x; }
// end slots

// Of the staged keys and values; first of the 64 rows of q.
var<workgroup> k_scale: array<f32, 32>;
var<workgroup> v_scale: array<f32, 32>;
var<workgroup> v_log: array<f32, 32>; // of v_scale
var<private> k_by: f32; // 1 / the scales of the thread's rows
var<private> v_by: f32;

fn narrow_key(x: Quad) -> vec4<f16> { return vec4<f16>(wide(x) * k_by); }
fn narrow_value(x: Quad) -> vec4<f16> { return vec4<f16>(wide(x) * v_by); }

// The bits of the largest finite magnitude.
fn magnitude(x: Quad) -> u32 {
    let bits = bitcast<vec4<u32>>(wide(x)) & vec4<u32>(0x7fffffffu);
    let finite = select(bits, vec4<u32>(), bits >= vec4<u32>(0x7f800000u));
    return max(max(finite.x, finite.y), max(finite.z, finite.w));
}

// Finds the scales of the two rows that have quad i of a thread's keys and values, or of the rows of q in their places. Scales bring the
// largest magnitude to 2^14, unless it is below 2^-46: exp(score) / scale must not overflow.
fn find_scales(thread: u32, i: u32, key: Quad, value: Quad) {
    var most = vec2<u32>(magnitude(key), magnitude(value));
    for (var lanes = D / 8u; lanes > 0u; lanes /= 2u) { most = max(most, subgroupShuffleXor(most, lanes)); }
    let exponents = max(most >> vec2<u32>(23u), vec2<u32>(81u)) - vec2<u32>(14u);
    let by = bitcast<vec2<f32>>((vec2<u32>(254u) - exponents) << vec2<u32>(23u));
    k_by = by.x;
    v_by = by.y;
    let scales = bitcast<vec2<f32>>(exponents << vec2<u32>(23u));
    if thread % (D / 4u) != 0u { return; }
    let row = (thread + i * 128u) / (D / 4u);
    k_scale[row] = scales.x;
    v_scale[row] = scales.y;
    v_log[row] = log(scales.y);
}

fn query_scale(row: u32) -> f32 { return select(v_scale[row % 32u], k_scale[row % 32u], row < 32u); }

fn by_keys(dots: vec4<f32>, j: u32) -> vec4<f32> {
    return dots * vec4<f32>(k_scale[j], k_scale[j + 1u], k_scale[j + 2u], k_scale[j + 3u]);
}

fn by_values(weights: vec4<f32>, j: u32) -> vec4<f32> {
    return weights * vec4<f32>(v_scale[j], v_scale[j + 1u], v_scale[j + 2u], v_scale[j + 3u]);
}

fn with_values(scores: vec4<f32>, j: u32) -> vec4<f32> {
    return scores + vec4<f32>(v_log[j], v_log[j + 1u], v_log[j + 2u], v_log[j + 3u]);
}
