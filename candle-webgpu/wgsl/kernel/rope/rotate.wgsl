// The rotation of rope: four elements of y, or one, for both kinds of pairs. The linker takes single functions of this file and renames
// them to `rotated` and `rotate_one`, and for a second operand to `u_rotated` and so on.

// slots: stands for what the kernels bring.
struct Params { n: u32, head_dim: u32, x_inner_stride: u32 }
@group(0) @binding(0) var<uniform> p: Params;
struct Place { col: u32, x: u32, c: u32, s: u32 }
fn place(i: u32) -> Place { return Place(i % p.head_dim, i, 0u, 0u); }
fn x_get(i: u32) -> f32 { return f32(i); }
fn c_get(i: u32) -> f32 { return f32(i); }
fn s_get(i: u32) -> f32 { return f32(i); }
fn x_get4(i: u32) -> vec4<f32> { return vec4<f32>(f32(i)); }
fn x_alpha_get4(i: u32) -> vec4<f32> { return vec4<f32>(f32(i)); }
fn eps() -> f32 { return 1e-5; }
fn rounded(v: vec4<f32>) -> vec4<f32> { return v; }
fn c_get4(i: u32) -> vec4<f32> { return vec4<f32>(f32(i)); }
fn s_get4(i: u32) -> vec4<f32> { return vec4<f32>(f32(i)); }
// end slots

// Four elements of a row.
fn x_four(row: u32, col: u32, scale: f32) -> vec4<f32> { return x_get4((row + col) / 4u); }
fn x_scale(row: u32) -> f32 { return 1.0; }

// The same of its rms_norm. Each thread adds up the squares of the whole row, since a row of a head is short.
fn x_four_normed(row: u32, col: u32, scale: f32) -> vec4<f32> {
    return rounded(x_get4((row + col) / 4u) * scale * x_alpha_get4(col / 4u));
}
fn x_scale_normed(row: u32) -> f32 {
    var sum = vec4<f32>();
    for (var col = 0u; col < p.head_dim; col += 4u) {
        let v = x_get4((row + col) / 4u);
        sum += v * v;
    }
    return 1.0 / sqrt(((sum.x + sum.y) + (sum.z + sum.w)) / f32(p.head_dim) + eps());
}

// Pairs (i, i + head_dim / 2), everything in whole quads.
fn halves(at: Place) -> vec4<f32> {
    let scale = x_scale(at.x);
    let half = p.head_dim / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = x_four(at.x, at.col, scale);
    let other = x_four(at.x, select(at.col + half, i, second), scale);
    let sines = s_get4((at.s + i) / 4u);
    return v * c_get4((at.c + i) / 4u) + select(-sines, sines, second) * other;
}

// Pairs (2 i, 2 i + 1), x in whole quads.
fn interleaved(at: Place) -> vec4<f32> {
    let i = at.col / 2u;
    let v = x_four(at.x, at.col, x_scale(at.x));
    let cosines = vec2<f32>(c_get(at.c + i), c_get(at.c + i + 1u)).xxyy;
    let sines = vec2<f32>(s_get(at.s + i), s_get(at.s + i + 1u)).xxyy;
    return v * cosines + vec4<f32>(-v.y, v.x, -v.w, v.z) * sines;
}

// Any strides, element by element.
fn halves_one(index: u32) -> f32 {
    let at = place(min(index, p.n - 1u));
    let half = p.head_dim / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = x_get(at.x + at.col * p.x_inner_stride);
    let other = x_get(at.x + select(at.col + half, i, second) * p.x_inner_stride);
    let sine = s_get(at.s + i);
    return v * c_get(at.c + i) + select(-sine, sine, second) * other;
}

fn interleaved_one(index: u32) -> f32 {
    let at = place(min(index, p.n - 1u));
    let second = at.col % 2u == 1u;
    let v = x_get(at.x + at.col * p.x_inner_stride);
    let other = x_get(at.x + select(at.col + 1u, at.col - 1u, second) * p.x_inner_stride);
    let sine = s_get(at.s + at.col / 2u);
    return v * c_get(at.c + at.col / 2u) + select(-sine, sine, second) * other;
}

fn rotate_one(index: u32) -> f32 { return f32(index); }

fn four_ones(q: u32) -> vec4<f32> {
    let i = q * 4u;
    return vec4<f32>(rotate_one(i), rotate_one(i + 1u), rotate_one(i + 2u), rotate_one(i + 3u));
}

fn rotated(at: Place) -> vec4<f32> { return vec4<f32>(f32(at.x)); }

fn rotate(q: u32) -> vec4<f32> { return rotated(place(q * 4u)); }
