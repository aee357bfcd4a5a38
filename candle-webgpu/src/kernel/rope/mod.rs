//! rope: rotary embeddings of pairs of elements of the last dim.

pub(crate) mod kv_cache;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::matmul::store::FLOATS;
use crate::kernel::{quads, WORKGROUP};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::split::{contiguous_strides, Loops};
use crate::memory::view::{to_u32, View};
use crate::recorder::Recorder;
use crate::shader::{read, renamed, write, Access, Kernel, Specialization, Text};

pub static ROPE: Kernel = Kernel {
    name: "rope",
    source: wgsl!("kernel/rope/rope.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[read("x"), read("c"), read("s"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots,
};

/// Pairs of (i, i + d / 2).
const HALVES: &str = "halves";
/// Pairs of neighbours.
const NEIGHBOURS: &str = "neighbours";

/// Two at once: `w` is u turned as y is x. Recorded by a rule.
pub static ROPE_QK: Kernel = Kernel {
    name: "rope_qk",
    source: wgsl!("kernel/rope/rope_qk.wgsl"),
    params: crate::shader::ParamsLayout::UNKNOWN,
    bindings: &[
        read("x"),
        read("c"),
        read("s"),
        write("y"),
        read("u"),
        write("w"),
    ],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        turns(spec, text);
        text.line("fn w_place(q: u32) -> u32 { return q; }\nfn copy(q: u32) {}");
        Ok(())
    },
};

/// `turn(q)` and `u_turn(q)`: four elements of y and of w.
pub(crate) fn turns(spec: &Specialization, text: &mut Text) {
    let turn = turn(spec).replace("p.n", "p.sides[0].n");
    let names = [
        ("turn", "u_turn"),
        ("turn_one", "u_turn_one"),
        ("x_get", "u_get"),
        ("x_get4", "u_get4"),
        ("place", "u_place"),
    ];
    let other = turn.replace("sides[0]", "sides[1]");
    text.line(turn);
    text.line(renamed(&other, &names));
}

/// The twin of a specialisation that turns two.
pub(crate) fn pair_spec(one: &Specialization) -> Option<Specialization> {
    let [x, c, s, y] = one.operands[..] else {
        return None;
    };
    Some(Specialization::new(&ROPE_QK, one.op, &[x, c, s, y, x, y]))
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.line(turn(spec));
    Ok(())
}

/// `turn(q)`: four elements of y.
fn turn(spec: &Specialization) -> String {
    let halves = spec.op == HALVES;
    let quads = spec.operands[0].1 == Access::Quads;
    let mut turn = String::from(match (halves, quads) {
        (true, true) => {
            "fn turn(q: u32) -> vec4<f32> {
    let at = place(q * 4u);
    let half = p.d / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = x_get4((at.x + at.col) / 4u);
    let other = x_get4((at.x + select(at.col + half, i, second)) / 4u);
    let sines = s_get4((at.s + i) / 4u);
    return v * c_get4((at.c + i) / 4u) + select(-sines, sines, second) * other;
}"
        }
        (false, true) => {
            "fn turn(q: u32) -> vec4<f32> {
    let at = place(q * 4u);
    let i = at.col / 2u;
    let v = x_get4((at.x + at.col) / 4u);
    let cosines = vec2<f32>(c_get(at.c + i), c_get(at.c + i + 1u)).xxyy;
    let sines = vec2<f32>(s_get(at.s + i), s_get(at.s + i + 1u)).xxyy;
    return v * cosines + vec4<f32>(-v.y, v.x, -v.w, v.z) * sines;
}"
        }
        (true, false) => {
            "fn turn_one(index: u32) -> f32 {
    let at = place(min(index, p.n - 1u));
    let half = p.d / 2u;
    let second = at.col >= half;
    let i = at.col - select(0u, half, second);
    let v = x_get(at.x + at.col * p.x_d);
    let other = x_get(at.x + select(at.col + half, i, second) * p.x_d);
    let sine = s_get(at.s + i);
    return v * c_get(at.c + i) + select(-sine, sine, second) * other;
}"
        }
        (false, false) => {
            "fn turn_one(index: u32) -> f32 {
    let at = place(min(index, p.n - 1u));
    let second = at.col % 2u == 1u;
    let v = x_get(at.x + at.col * p.x_d);
    let other = x_get(at.x + select(at.col + 1u, at.col - 1u, second) * p.x_d);
    let sine = s_get(at.s + at.col / 2u);
    return v * c_get(at.c + at.col / 2u) + select(-sine, sine, second) * other;
}"
        }
    });
    if !quads {
        turn += "
fn turn(q: u32) -> vec4<f32> {
    let i = q * 4u;
    return vec4<f32>(turn_one(i), turn_one(i + 1u), turn_one(i + 2u), turn_one(i + 3u));
}";
    }
    turn
}

fn spec(dtype: DType, pairs: &'static str, whole: bool) -> Specialization {
    let (x, angles) = match (whole, pairs) {
        (true, HALVES) => (Access::Quads, Access::Quads),
        (true, _) => (Access::Quads, Access::Words),
        (false, _) => (Access::Words, Access::Words),
    };
    let operands = [
        (dtype, x),
        (dtype, angles),
        (dtype, angles),
        (dtype, Access::Put),
    ];
    Specialization::new(&ROPE, pairs, &operands)
}

pub fn catalogue() -> Vec<Specialization> {
    let mut all = alone();
    all.extend(pair_catalogue());
    all
}

pub(crate) fn pair_catalogue() -> Vec<Specialization> {
    alone().iter().filter_map(pair_spec).collect()
}

fn alone() -> Vec<Specialization> {
    let mut all = Vec::new();
    for dtype in FLOATS {
        for pairs in [HALVES, NEIGHBOURS] {
            all.extend([true, false].map(|whole| spec(dtype, pairs, whole)));
        }
    }
    all
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub n: u32,
    pub d: u32,
    pub x_offset: u32,
    pub c_offset: u32,
    pub s_offset: u32,
    pub x_d: u32,
    pub dims: [u32; 2],
    pub x_strides: [u32; 4],
    pub c_strides: [u32; 4],
    pub s_strides: [u32; 4],
}

/// One of the two that [`ROPE_QK`] turns.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Side {
    pub n: u32,
    pub offset: u32,
    pub dims: [u32; 2],
    pub strides: [u32; 4],
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct PairParams {
    pub d: u32,
    pub c_offset: u32,
    pub s_offset: u32,
    pub x_d: u32,
    pub c_strides: [u32; 4],
    pub s_strides: [u32; 4],
    pub sides: [Side; 2],
}

/// Where time stands among the dims of x.
#[derive(Clone, Copy)]
enum Time {
    /// (b, h, t, d)
    Third,
    /// (b, t, h, d)
    Second,
}

impl Recorder {
    /// Rotary embedding of x (b, h, t, d) with pairs (i, i + d / 2); cosines and sines are (t, d / 2) or
    /// (b, t, d / 2), and may be longer in t.
    pub fn rope(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope", [x, cos, sin], HALVES, Time::Third)
    }

    /// [`Recorder::rope`] with pairs of neighbours.
    pub fn rope_i(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope_i", [x, cos, sin], NEIGHBOURS, Time::Third)
    }

    /// [`Recorder::rope`] of x (b, t, h, d).
    pub fn rope_thd(&self, x: View<'_>, cos: View<'_>, sin: View<'_>) -> Result<Value> {
        self.rotate("rope_thd", [x, cos, sin], HALVES, Time::Second)
    }

    fn rotate(
        &self,
        op: &'static str,
        views: [View<'_>; 3],
        pairs: &'static str,
        time: Time,
    ) -> Result<Value> {
        let [x, cos, sin] = views;
        if !FLOATS.contains(&x.dtype) && x.dtype != DType::F64 {
            return Err(Error::Unsupported {
                op,
                dtype: x.dtype.name(),
            });
        }
        let invalid = || Error::Invalid {
            op,
            message: format!(
                "{:?} {} with cosines {:?} {} and sines {:?} {}",
                x.dims, x.dtype, cos.dims, cos.dtype, sin.dims, sin.dtype
            ),
        };
        let [b, i, j, d] = <[usize; 4]>::try_from(x.dims).map_err(|_| invalid())?;
        let t = match time {
            Time::Third => j,
            Time::Second => i,
        };
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
        let [cos, sin] = [&angles[0], &angles[1]].map(|a| View {
            value: &a.value,
            dtype: x.dtype,
            dims: &dims,
            strides: &a.strides,
            offset: a.offset,
        });
        if x.dtype == DType::F64 {
            return self.rotate_in_steps([x, cos, sin], pairs == HALVES);
        }
        let out = (x.dtype, x.dims);
        self.in_parts(op, [x, cos, sin], out, Loops::First(3), |reads, y| {
            self.rotate_piece(op, reads, y, pairs)
        })
    }

    fn rotate_piece(
        &self,
        op: &'static str,
        [x, cos, sin]: [View<'_>; 3],
        y: BindingRange<'_>,
        pairs: &'static str,
    ) -> Result<()> {
        let (x_window, x) = self.binding_range(op, x)?;
        let (c_window, cos) = self.binding_range(op, cos)?;
        let (s_window, sin) = self.binding_range(op, sin)?;
        // The last stride is x_d, and 1 of the angles.
        let strides = |v: View<'_>| [v.strides[0], v.strides[1], v.strides[2], 0].map(|s| s as u32);
        let [_, i, j, d] = [0, 1, 2, 3].map(|k| x.dims[k] as u32);
        let params = Params {
            n: to_u32(op, x.count())?,
            d,
            x_offset: x.offset as u32,
            c_offset: cos.offset as u32,
            s_offset: sin.offset as u32,
            x_d: x.strides[3] as u32,
            dims: [i, j],
            x_strides: strides(x),
            c_strides: strides(cos),
            s_strides: strides(sin),
        };
        let four = |v: &u32| v.is_multiple_of(4);
        let x_whole = d.is_multiple_of(4)
            && params.x_d == 1
            && four(&params.x_offset)
            && params.x_strides.iter().all(four);
        let whole = x_whole
            && (pairs == NEIGHBOURS
                || d.is_multiple_of(8)
                    && [params.c_offset, params.s_offset].iter().all(four)
                    && params.c_strides.iter().chain(&params.s_strides).all(four));
        self.record(
            spec(x.dtype, pairs, whole),
            &[x_window, c_window, s_window, y],
            &params,
            quads(x.count()),
        )
    }

    /// Cosines or sines along the dims of x, with the last dim contiguous, which the kernels count on.
    fn angles(&self, v: View<'_>, time: Time) -> Result<Angles> {
        let rank = v.dims.len();
        let dense = v.strides[rank - 1] == 1 || v.dims[rank - 1] == 1;
        let (value, strides, offset) = if dense {
            (v.value.clone(), v.strides.into(), v.offset)
        } else {
            (self.contiguous(v)?, contiguous_strides(v.dims), 0)
        };
        let batch = if rank == 3 { strides[0] } else { 0 };
        let along = strides[rank - 2];
        let strides = match time {
            Time::Third => [batch, 0, along, 1],
            Time::Second => [batch, along, 0, 1],
        };
        Ok(Angles {
            value,
            strides,
            offset,
        })
    }
}

/// Cosines or sines, and their strides along the dims of x.
struct Angles {
    value: Value,
    strides: [usize; 4],
    offset: usize,
}
