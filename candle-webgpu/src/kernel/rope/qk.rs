//! RoPE of queries and keys at once. Recorded only by the rule `rope_qk`.

use crate::kernel::rope::kv_cache::PARTS;
use crate::kernel::rope::{one_catalogue, rotate};
use crate::shader::{params, renamed, Kernel, Specialization, Text};

/// `w` is u rotated as `y` is x rotated. Recorded only by the rule of the same name.
pub static ROPE_QK: Kernel = Kernel {
    slots: |spec, text| {
        rotate_slots(spec, text);
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
        ("place", "u_place"),
    ];
    let other = renamed(&rotate.replace("sides[0]", "sides[1]"), &names);
    text.line(rotate);
    text.line(other);
}

/// The specialization of [`ROPE_QK`] that does what two of [`ROPE`](super::ROPE) do.
pub(crate) fn spec(one: &Specialization) -> Option<Specialization> {
    let [x, c, s, y] = one.operands[..] else {
        return None;
    };
    Some(Specialization::new(&ROPE_QK, one.op, &[x, c, s, y, x, y]))
}

pub fn catalogue() -> Vec<Specialization> {
    one_catalogue().iter().filter_map(spec).collect()
}
