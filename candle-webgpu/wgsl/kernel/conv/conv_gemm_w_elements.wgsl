// w_four(o, k): four weights of channel o from term k on, for a w with any strides; 0 past the last term.

// slots: an f32 w and the parameters.
struct Params { k: u32, taps: vec2<u32>, w_strides: vec4<u32>, w_offset: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> w: array<f32>;
fn w_get(at: u32) -> f32 { return w[at]; }
fn tap_of(k: u32) -> vec3<u32> { return vec3<u32>(k, 0u, 0u); }
// end slots

fn w_at(o: u32, tap: vec3<u32>) -> f32 {
    let at = vec4<u32>(o, tap) * p.w_strides;
    return w_get(p.w_offset + at.x + at.y + at.z + at.w);
}
fn tap_next(tap: vec3<u32>) -> vec3<u32> {
    if tap.z + 1u < p.taps.y { return vec3<u32>(tap.xy, tap.z + 1u); }
    if tap.y + 1u < p.taps.x { return vec3<u32>(tap.x, tap.y + 1u, 0u); }
    return vec3<u32>(tap.x + 1u, 0u, 0u);
}
fn w_four(o: u32, k: u32) -> vec4<f32> {
    var tap = tap_of(k);
    var v = vec4<f32>(w_at(o, tap), 0.0, 0.0, 0.0);
    tap = tap_next(tap);
    if k + 1u < p.k { v.y = w_at(o, tap); }
    tap = tap_next(tap);
    if k + 2u < p.k { v.z = w_at(o, tap); }
    tap = tap_next(tap);
    if k + 3u < p.k { v.w = w_at(o, tap); }
    return v;
}
