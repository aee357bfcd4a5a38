//! RoPE: rotary position embeddings of pairs of elements of the last dim.

pub(crate) mod kv_cache;
pub(crate) mod qk;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::store::FLOATS;
use crate::kernel::quads;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::{contiguous_strides, Loops};
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{function, params, renamed, Access, Kernel, Specialization};

pub static ROPE: Kernel = Kernel {
    slots: |spec, text| {
        text.line(rotate(spec));
        Ok(())
    },
    ..kernel!("rope", "rope", Params::LAYOUT; read x, read c, read s, write y)
};

/// The ops, named as functions of `rotate.wgsl`. Pairs (i, i + head_dim / 2).
const HALVES: &str = "halves";
/// Pairs (2 i, 2 i + 1).
const INTERLEAVED: &str = "interleaved";

params! {
    /// Parameters of [`ROPE`].
    pub(crate) struct Params {
        pub n: u32,
        pub head_dim: u32,
        pub x_offset: u32,
        pub c_offset: u32,
        pub s_offset: u32,
        pub x_inner_stride: u32,
        pub dims: [u32; 2],
        pub x_strides: [u32; 4],
        pub c_strides: [u32; 4],
        pub s_strides: [u32; 4],
    }
}

const ROTATE: &str = wgsl!("kernel/rope/rotate.wgsl");

/// `rotate(q)`: four elements of y.
fn rotate(spec: &Specialization) -> String {
    if spec.operands[0].1 == Access::Quads {
        return rotated(spec, spec.op, "rotated", "x") + "\n" + function(ROTATE, "rotate");
    }
    let take = |name: &str, new: &str| renamed(function(ROTATE, name), &[(name, new)]);
    let one = format!("{}_one", spec.op);
    take(&one, "rotate_one") + "\n" + &take("four_ones", "rotate")
}

/// The function `name(at)`, which rotates four elements of an operand in whole quads in pairs `pairs`; of its rms_norm, if the
/// weight of that is bound.
pub(crate) fn rotated(spec: &Specialization, pairs: &str, name: &str, operand: &str) -> String {
    let of_operand = |what: &str| format!("{operand}_{what}");
    let [get, alpha, four, scale] = ["get4", "alpha_get4", "four", "scale"].map(of_operand);
    let parts = match spec.binds(&of_operand("alpha")) {
        true => ["x_four_normed", "x_scale_normed"],
        false => ["x_four", "x_scale"],
    };
    let names = [
        (pairs, name),
        ("x_get4", &*get),
        ("x_alpha_get4", &*alpha),
        ("x_four", &*four),
        (parts[0], &*four),
        ("x_scale", &*scale),
        (parts[1], &*scale),
    ];
    let text = [parts[0], parts[1], pairs].map(|part| renamed(function(ROTATE, part), &names));
    text.join("\n")
}

fn spec(dtype: DType, pairs: &'static str, whole: bool) -> Specialization {
    let (x, angles) = match (whole, pairs) {
        (true, HALVES) => (Access::Quads, Access::Quads),
        (true, _) => (Access::Quads, Access::Words),
        (false, _) => (Access::Words, Access::Words),
    };
    let operands = [x, angles, angles, Access::Put].map(|access| (dtype, access));
    Specialization::new(&ROPE, pairs, &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let pairs = [qk::catalogue(), kv_cache::catalogue()].concat();
    let normed = pairs.iter().filter_map(qk::with_norms).collect();
    [one_catalogue(), pairs, normed].concat()
}

fn one_catalogue() -> Vec<Specialization> {
    let both = |pairs| FLOATS.map(|dtype| [true, false].map(|whole| spec(dtype, pairs, whole)));
    [HALVES, INTERLEAVED].map(both).as_flattened().concat()
}

impl Recorder {
    /// Rotary embedding of x (b, h, t, d) in pairs (i, i + d / 2); cosines and sines are (t, d / 2) or (b, t, d / 2), and may be
    /// longer in t. All operands have one float dtype.
    pub fn rope(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope", [x, cos, sin], HALVES, 2)
    }

    /// [`Recorder::rope`] with interleaved pairs (2 i, 2 i + 1).
    pub fn rope_i(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope_i", [x, cos, sin], INTERLEAVED, 2)
    }

    /// [`Recorder::rope`] of x (b, t, h, d).
    pub fn rope_thd(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope_thd", [x, cos, sin], HALVES, 1)
    }

    /// `time`: the dim of x that is t.
    fn rotate(
        &self,
        op: &'static str,
        [x, cos, sin]: [View<'_>; 3],
        pairs: &'static str,
        time: usize,
    ) -> Result<Value> {
        if x.dtype != DType::F64 {
            x.dtype.one_of(&FLOATS, op)?;
        }
        let invalid = || Error::Invalid {
            op,
            message: format!(
                "x {:?} {}, cosines {:?} {}, sines {:?} {}",
                x.dims, x.dtype, cos.dims, cos.dtype, sin.dims, sin.dtype
            ),
        };
        let [b, i, j, d] = <[usize; 4]>::try_from(x.dims).map_err(|_| invalid())?;
        let t = x.dims[time];
        for v in [cos, sin] {
            let fits = match *v.dims {
                [vt, vd] => vt >= t && vd * 2 == d,
                [vb, vt, vd] => vb == b && vt >= t && vd * 2 == d,
                _ => false,
            };
            if !fits || v.dtype != x.dtype {
                return Err(invalid());
            }
        }
        let dims = [b, i, j, d / 2];
        let angles = [self.angles(cos, time)?, self.angles(sin, time)?];
        let [cos, sin] = angles.each_ref().map(|(value, strides, offset)| View {
            value,
            dtype: x.dtype,
            dims: &dims,
            strides,
            offset: *offset,
        });
        if x.dtype == DType::F64 {
            return self.rotate_in_steps([x, cos, sin], pairs == HALVES);
        }
        let out = (x.dtype, x.dims);
        self.in_bound_parts(op, [x, cos, sin], out, Loops::First(3), |reads, ranges| {
            self.rotate_part(op, reads, ranges, pairs)
        })
    }

    fn rotate_part(
        &self,
        op: &'static str,
        [x, cos, sin]: [View<'_>; 3],
        ranges: &[BindingRange<'_>],
        pairs: &'static str,
    ) -> Result<()> {
        // The stride of the last dim is x_inner_stride for x, and 1 for the angles.
        let strides = |v: View<'_>| [v.strides[0], v.strides[1], v.strides[2], 0].map(|s| s as u32);
        let [_, i, j, d] = [0, 1, 2, 3].map(|k| x.dims[k] as u32);
        let params = Params {
            n: to_u32(op, x.count())?,
            head_dim: d,
            x_offset: x.offset as u32,
            c_offset: cos.offset as u32,
            s_offset: sin.offset as u32,
            x_inner_stride: x.strides[3] as u32,
            dims: [i, j],
            x_strides: strides(x),
            c_strides: strides(cos),
            s_strides: strides(sin),
        };
        let four = |v: &u32| v.is_multiple_of(4);
        let x_whole = d.is_multiple_of(4)
            && params.x_inner_stride == 1
            && four(&params.x_offset)
            && params.x_strides.iter().all(four);
        let whole = x_whole
            && (pairs == INTERLEAVED
                || d.is_multiple_of(8)
                    && [params.c_offset, params.s_offset].iter().all(four)
                    && params.c_strides.iter().chain(&params.s_strides).all(four));
        let spec = spec(x.dtype, pairs, whole);
        self.record(spec, ranges, &params, quads(x.count()))
    }

    /// Cosines or sines broadcast to the dims of x, with the contiguous last dim that the kernels expect: value, strides and offset.
    fn angles(&self, v: View<'_>, time: usize) -> Result<(Value, [usize; 4], usize)> {
        let rank = v.dims.len();
        let dense = v.strides[rank - 1] == 1 || v.dims[rank - 1] == 1;
        let (value, strides, offset) = if dense {
            (v.value.clone(), v.strides.into(), v.offset)
        } else {
            (self.contiguous(v)?, contiguous_strides(v.dims), 0)
        };
        let batch = if rank == 3 { strides[0] } else { 0 };
        let mut along = [batch, 0, 0, 1];
        along[time] = strides[rank - 2];
        Ok((value, along, offset))
    }
}
