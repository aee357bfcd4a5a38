//! RoPE of queries and keys at once. Recorded only by the rule `rope_qk`.

use crate::kernel::rope::kv_cache::PARTS;
use crate::kernel::rope::{one_catalogue, rotate};
use crate::shader::{params, read, renamed, Access, Kernel, Specialization, Text};

/// `w` is u rotated as `y` is x rotated; with weights `x_alpha` and `u_alpha`, their rms_norms are. Recorded only by the rules of the same
/// name and `qk_norm`.
pub static ROPE_QK: Kernel = Kernel {
    slots: |spec, text| {
        rotate_slots(spec, text);
        text.bindings(spec, spec.kernel.bindings.len());
        text.line("fn w_place(q: u32) -> u32 { return q; }");
        text.line("fn copy(q: u32) {}");
        Ok(())
    },
    ..kernel!("rope", "rope_qk", QkParams::LAYOUT; read x, read c, read s, write y, read u, write w)
};

params! {
    /// One of the two operands that [`ROPE_QK`] rotates.
    pub(crate) struct Side {
        pub n: u32,
        pub offset: u32,
        pub dims: [u32; 2],
        pub strides: [u32; 4],
    }
}

params! {
    /// `n` quads in rows of `run` that are copied from `source` to `place`; strides are those of rows, in quads.
    #[derive(Default)]
    pub(crate) struct Part {
        pub n: u32,
        pub run: u32,
        pub source: u32,
        pub place: u32,
        pub source_stride: u32,
        pub place_stride: u32,
        pub pad: [u32; 2],
    }
}

params! {
    /// Parameters of [`ROPE_QK`], which has no parts, and of [`ROPE_KV_CACHE`](crate::kernel::rope::kv_cache::ROPE_KV_CACHE).
    pub(crate) struct QkParams {
        pub head_dim: u32,
        pub c_offset: u32,
        pub s_offset: u32,
        pub x_inner_stride: u32,
        pub c_strides: [u32; 4],
        pub s_strides: [u32; 4],
        pub sides: [Side; 2],
        pub parts: [Part; PARTS],
        /// Of the rms_norms of both sides.
        pub eps: f32,
        pub zero: u32,
        pub pad: [u32; 2],
    }
}

/// `rotate(q)` and `u_rotate(q)`: four elements of y and of w.
pub(crate) fn rotate_slots(spec: &Specialization, text: &mut Text) {
    let rotate = rotate(spec).replace("p.n", "p.sides[0].n");
    let names = [
        ("rotate", "u_rotate"),
        ("rotated", "u_rotated"),
        ("rotate_one", "u_rotate_one"),
        ("x_get", "u_get"),
        ("x_get4", "u_get4"),
        ("x_alpha_get4", "u_alpha_get4"),
        ("x_four", "u_four"),
        ("x_scale", "u_scale"),
        ("place", "u_place"),
    ];
    let other = renamed(&rotate.replace("sides[0]", "sides[1]"), &names);
    text.line(rotate);
    text.line(other);
    let rounded = spec.info(0).rounded("v", "p.zero");
    text.line(format!(
        "fn rounded(v: vec4<f32>) -> vec4<f32> {{ return {rounded}; }}"
    ));
    text.line("fn eps() -> f32 { return p.eps; }");
}

/// The specialization of [`ROPE_QK`] that does what two of [`ROPE`](super::ROPE) do.
pub(crate) fn spec(one: &Specialization) -> Option<Specialization> {
    let [x, c, s, y] = one.operands[..] else {
        return None;
    };
    Some(Specialization::new(&ROPE_QK, one.op, &[x, c, s, y, x, y]))
}

/// The most storage buffers that WebGPU's adapters commonly have.
const BUFFERS: usize = 10;

/// The specialization that does what two of `rms_norm` and one op that rotates their results do: one of [`ROPE_QK`] or of a kernel with its
/// operands. It has to read rows in whole quads.
pub(crate) fn with_norms(spec: &Specialization) -> Option<Specialization> {
    let (dtype, access) = spec.operands[0];
    let alpha = match spec.kernel.bindings[0].name {
        "q" => "q_alpha",
        _ => "x_alpha",
    };
    let room = spec.operands.len() + 2 <= BUFFERS;
    let fits = access == Access::Quads && spec.binds("u") && !spec.binds(alpha) && room;
    let bind = |spec: Specialization, n| spec.bind(read(n), dtype, access);
    fits.then(|| [alpha, "u_alpha"].into_iter().fold(spec.clone(), bind))
}

pub fn catalogue() -> Vec<Specialization> {
    one_catalogue().iter().filter_map(spec).collect()
}
