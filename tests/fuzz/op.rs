//! OPS: every op that is drawn, one row each. Its text is both what runs and what a reproduction prints.

use std::iter;
use std::sync::LazyLock;

use candle_core::{DType, Tensor, D};
use candle_nn::rotary_emb;

use crate::bound::{Bound, ARITH, EXACT, FUNCTION, MATMUL, NORM, ROPE, SOFTMAX, SUM};
use crate::draw::Drawer;
use crate::family::{self as draw};
use crate::graph::Call;
use crate::input::{ALL, REALS};
use crate::judge::{self, Scale};
use crate::ops::{self, Apply, Family, Op, Wants};

/// Draws operands and parameters for a dtype.
pub type Draw = fn(&mut Drawer, DType) -> Option<Call>;

/// How a node's value is compared with the CPU's from the same operands.
#[derive(Clone, Copy)]
pub enum Judge {
    /// The CPU in the same dtype, bit for bit, except for the sign of zero and the bits of NaN.
    Same,
    /// The CPU's cast, except where that is wrong.
    Cast,
    /// The CPU in f64.
    Near(Bound),
    /// The CPU in f64; the absolute part of the bound grows with the operands.
    Scaled(Bound, Scale),
    /// The CPU in f64; the absolute part of the bound grows with the sums of the terms' magnitudes.
    Dots(Bound),
    /// The CPU in f64, by another formula, since the row's op has no f64 on the CPU.
    Formula(Bound, Scale, Apply),
    /// The operand's rows in ascending order.
    Sorted,
    /// Positions that sort the operand; true is ascending.
    Order(bool),
}

/// Where a row's result is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Contiguous, in its own storage.
    New,
    /// May be a view of the first operand's storage.
    View,
    /// Writes into the first operand's storage and returns it.
    InPlace,
}

#[derive(Clone, Copy)]
pub struct Row {
    /// The shared op that precedes a row of the fuzzer's own; if empty, all of them do.
    pub after: &'static str,
    pub name: &'static str,
    pub dtypes: &'static [DType],
    pub draw: Draw,
    pub wants: Wants,
    pub judge: Judge,
    pub memory: Memory,
    pub apply: Apply,
    pub text: &'static str,
}

/// Dtypes of matmul on the CPU.
pub const MATRIX: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
const NARROW: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// Dtypes precise enough for an op of several steps to be compared with f64.
const STEADY: &[DType] = &[DType::F32, DType::F64];

/// Interpolation between two numbers of magnitude at most 2.
const BLEND: Bound = Bound {
    abs: 1e-6,
    rel: 1e-6,
    ulps: 1,
};
/// Each step rounds, beginning with the difference to the greatest element.
const STEPS: Bound = Bound {
    rel: 8e-6,
    ..SOFTMAX
};

use Judge::{Cast, Dots, Formula, Near, Order, Same, Scaled, Sorted};
use Memory::{InPlace, New, View};
use Wants::{Any, Calm, Normal, Open};

macro_rules! rows {
    ($($([$after:literal])? $name:literal $dtypes:ident $draw:ident $wants:ident $memory:ident $judge:expr, $apply:expr;)*) => {
        &[$(Row {
            after: concat!($($after)?),
            name: $name,
            dtypes: &$dtypes,
            draw: draw::$draw,
            wants: $wants,
            judge: $judge,
            memory: $memory,
            apply: $apply,
            text: stringify!($apply),
        }),*]
    };
}

/// The CPU refuses most of the strides that cumsum makes.
const CUMSUM: Apply = |c| {
    let last = c.x[0].rank() - 1;
    let x = c.x[0].transpose(c.u[0], last)?.contiguous()?;
    x.cumsum(last)?.transpose(c.u[0], last)
};
/// Softmax over the last dim has no f64 on the CPU.
const SOFTMAX_F64: Apply = |c| candle_nn::ops::softmax(&c.x[0], D::Minus1);
const RMS_F64: Apply = |c| candle_nn::ops::rms_norm_slow(&c.x[0], &c.x[1], c.f[0] as f32);
const LAYER_F64: Apply =
    |c| candle_nn::ops::layer_norm_slow(&c.x[0], &c.x[1], &c.x[2], c.f[0] as f32);
const ROPE_F64: Apply = |c| rotary_emb::rope_slow(&c.x[0], &c.x[1], &c.x[2]);
const ROPE_I_F64: Apply = |c| rotary_emb::rope_i_slow(&c.x[0], &c.x[1], &c.x[2]);
const ROPE_THD_F64: Apply = |c| {
    let x = c.x[0].transpose(1, 2)?.contiguous()?;
    rotary_emb::rope_slow(&x, &c.x[1], &c.x[2])?.transpose(1, 2)
};

/// The fuzzer's own rows. What a seed draws depends on the order of all rows.
#[rustfmt::skip]
static OWN: &[Row] = rows! {
    // after    name                        dtypes draw         wants  memory  judge
    ["sigmoid"] "leaky_relu"                REALS  unary        Any    New     Near(ARITH),     |c| candle_nn::ops::leaky_relu(&c.x[0], 0.5);
    ["sigmoid"] "hard_sigmoid"              STEADY unary        Calm   New     Near(FUNCTION),  |c| candle_nn::ops::hard_sigmoid(&c.x[0]);
    ["affine"]  "clamp"                     ALL    clamp        Any    New     Same,            |c| c.x[0].clamp(c.f[0], c.f[1]);
    ["affine"]  "to_dtype"                  ALL    cast         Any    View    Cast,            |c| c.x[0].to_dtype(c.to);
    ["div"]     "add_special"               REALS  binary       Any    New     Near(ARITH),     |c| c.x[0].add(&c.x[1]);
    ["div"]     "mul_special"               REALS  binary       Normal New     Near(ARITH),     |c| c.x[0].mul(&c.x[1]);
    ["div"]     "div_special"               REALS  binary       Normal New     Near(ARITH),     |c| c.x[0].div(&c.x[1]);
    ["maximum"] "broadcast_add"             ALL    broadcast    Calm   New     Near(ARITH),     |c| c.x[0].broadcast_add(&c.x[1]);
    ["maximum"] "broadcast_sub"             ALL    broadcast    Calm   New     Near(ARITH),     |c| c.x[0].broadcast_sub(&c.x[1]);
    ["maximum"] "broadcast_mul"             ALL    broadcast    Calm   New     Near(ARITH),     |c| c.x[0].broadcast_mul(&c.x[1]);
    ["maximum"] "broadcast_div"             ALL    broadcast    Calm   New     Near(ARITH),     |c| c.x[0].broadcast_div(&c.x[1]);
    ["maximum"] "broadcast_maximum"         ALL    broadcast    Any    New     Same,            |c| c.x[0].broadcast_maximum(&c.x[1]);
    ["maximum"] "broadcast_lt"              ALL    broadcast    Any    New     Same,            |c| c.x[0].broadcast_lt(&c.x[1]);
    ["gt"]      "where_cond"                ALL    where_cond   Any    New     Same,            |c| c.x[0].where_cond(&c.x[1], &c.x[2]);
    ["sum"]     "sum_keepdim"               ALL    dims         Open   View    Scaled(SUM, judge::SUMMED), |c| c.x[0].sum_keepdim(c.u);
    ["sum"]     "sum_all"                   ALL    unary        Open   New     Scaled(SUM, judge::SUMMED), |c| c.x[0].sum_all();
    ["sum"]     "mean"                      STEADY dims         Calm   New     Scaled(SUM, judge::MEAN), |c| c.x[0].mean(c.u);
    ["sum"]     "var"                       STEADY dim          Calm   New     Scaled(SUM, judge::SQUARE), |c| c.x[0].var(c.u[0]);
    ["max"]     "max_keepdim"               ALL    dim          Any    New     Same,            |c| c.x[0].max_keepdim(c.u[0]);
    ["max"]     "min_all"                   ALL    nonempty     Any    New     Same,            |c| c.x[0].min_all();
    ["max"]     "max_all"                   ALL    nonempty     Any    New     Same,            |c| c.x[0].max_all();
                "cumsum"                    MATRIX dim          Calm   View    Formula(SUM, judge::RUNNING, CUMSUM), |c| c.x[0].cumsum(c.u[0]);
                "sort"                      ALL    nonempty     Any    New     Sorted,          |c| c.x[0].contiguous()?.sort_last_dim(true).map(|s| s.0);
                "argsort"                   ALL    nonempty     Any    New     Order(true),     |c| c.x[0].contiguous()?.arg_sort_last_dim(true);
                "argsort_desc"              ALL    nonempty     Any    New     Order(false),    |c| c.x[0].contiguous()?.arg_sort_last_dim(false);

                "reshape"                   ALL    reshape      Any    View    Same,            |c| c.x[0].reshape(c.u);
                "flatten_all"               ALL    unary        Any    View    Same,            |c| c.x[0].flatten_all();
                "narrow"                    ALL    narrow       Any    View    Same,            |c| c.x[0].narrow(c.u[0], c.u[1], c.u[2]);
                "transpose"                 ALL    transpose    Any    View    Same,            |c| c.x[0].transpose(c.u[0], c.u[1]);
                "permute"                   ALL    permute      Any    View    Same,            |c| c.x[0].permute(c.u);
                "broadcast_as"              ALL    broadcast_as Any    View    Same,            |c| c.x[0].broadcast_as(c.u);
                "unsqueeze"                 ALL    unsqueeze    Any    View    Same,            |c| c.x[0].unsqueeze(c.u[0]);
                "squeeze"                   ALL    squeeze      Any    View    Same,            |c| c.x[0].squeeze(c.u[0]);
                "contiguous"                ALL    unary        Any    View    Same,            |c| c.x[0].contiguous();
                "copy"                      ALL    unary        Any    View    Same,            |c| c.x[0].copy();
                "force_contiguous"          ALL    unary        Any    New     Same,            |c| c.x[0].force_contiguous();
                "repeat"                    ALL    repeat       Any    View    Same,            |c| c.x[0].repeat(c.u);
                "roll"                      ALL    roll         Any    View    Same,            |c| c.x[0].roll(c.u[1] as i32, c.u[0]);
                "flip"                      ALL    flip         Any    View    Same,            |c| c.x[0].flip(c.u);
                "unfold"                    ALL    unfold       Any    View    Same,            |c| c.x[0].unfold(c.u[0], c.u[1], c.u[2]);
                "cat"                       ALL    cat          Any    View    Same,            |c| Tensor::cat(c.x, c.u[0]);
                "stack"                     ALL    stack        Any    View    Same,            |c| Tensor::stack(c.x, c.u[0]);
                "pad_with_zeros"            ALL    pad          Any    View    Same,            |c| c.x[0].pad_with_zeros(c.u[0], c.u[1], c.u[2]);
                "pad_with_same"             ALL    pad          Any    View    Same,            |c| c.x[0].pad_with_same(c.u[0], c.u[1], c.u[2]);

                "index_select"              ALL    select       Any    New     Same,            |c| c.x[0].index_select(&c.x[1], c.u[0]);
                "gather"                    ALL    gather       Any    New     Same,            |c| c.x[0].gather(&c.x[1], c.u[0]);
                "scatter"                   ALL    scatter      Any    New     Same,            |c| c.x[0].scatter(&c.x[1], &c.x[2], c.u[0]);
                "scatter_add"               ALL    scatter      Calm   New     Scaled(SUM, judge::ADDED), |c| c.x[0].scatter_add(&c.x[1], &c.x[2], c.u[0]);
                "index_add"                 ALL    index_add    Calm   New     Scaled(SUM, judge::ADDED), |c| c.x[0].index_add(&c.x[1], &c.x[2], c.u[0]);
                "slice_scatter"             ALL    slice        Any    View    Same,            |c| c.x[0].slice_scatter(&c.x[1], c.u[0], c.u[1]);

                "slice_set"                 ALL    own_slice    Any    InPlace Same,            |c| c.x[0].slice_set(&c.x[1].contiguous()?, c.u[0], c.u[1]).map(|()| c.x[0].clone());
                "zero_set"                  ALL    own          Any    InPlace Same,            |c| c.x[0].zero_set().map(|()| c.x[0].clone());
                "one_set"                   ALL    own          Any    InPlace Same,            |c| c.x[0].one_set().map(|()| c.x[0].clone());
                "zero_set_part"             ALL    own_part     Any    InPlace Same,            |c| c.x[0].narrow(c.u[0], c.u[1], c.u[2])?.zero_set().map(|()| c.x[0].clone());
                "scatter_set"               ALL    own_scatter  Any    InPlace Same,            |c| c.x[0].scatter_set(&c.x[1], &c.x[2], c.u[0]).map(|()| c.x[0].clone());
                "scatter_add_set"           ALL    own_scatter  Calm   InPlace Scaled(SUM, judge::ADDED), |c| c.x[0].scatter_add_set(&c.x[1], &c.x[2], c.u[0]).map(|()| c.x[0].clone());

                "matmul"                    MATRIX matmul       Open   New     Dots(MATMUL),    |c| c.x[0].matmul(&c.x[1]);
                "matmul_t"                  MATRIX matmul_t     Open   New     Dots(MATMUL),    |c| c.x[0].matmul(&c.x[1].t()?);
                "broadcast_matmul"          MATRIX broadcasted  Open   New     Dots(MATMUL),    |c| c.x[0].broadcast_matmul(&c.x[1]);
                "conv1d"                    MATRIX conv1d       Calm   View    Dots(MATMUL),    |c| c.x[0].conv1d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
                "conv2d"                    MATRIX conv2d       Calm   View    Dots(MATMUL),    |c| c.x[0].conv2d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
                "conv_transpose1d"          MATRIX transposed1d Calm   View    Dots(MATMUL),    |c| c.x[0].conv_transpose1d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3], 1);
                "conv_transpose2d"          MATRIX transposed2d Calm   View    Dots(MATMUL),    |c| c.x[0].conv_transpose2d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
                "max_pool2d"                ALL    pool         Any    New     Same,            |c| c.x[0].max_pool2d_with_stride((c.u[0], c.u[1]), (c.u[2], c.u[3]));
                "avg_pool2d"                MATRIX pool         Open   New     Scaled(SUM, judge::LINEAR), |c| c.x[0].avg_pool2d_with_stride((c.u[0], c.u[1]), (c.u[2], c.u[3]));
                "upsample_nearest1d"        ALL    upsample1d   Any    New     Same,            |c| c.x[0].upsample_nearest1d(c.u[0]);
                "upsample_nearest2d"        ALL    upsample2d   Any    New     Same,            |c| c.x[0].upsample_nearest2d(c.u[0], c.u[1]);
                "upsample_bilinear"         MATRIX upsample2d   Calm   New     Scaled(BLEND, judge::LINEAR), |c| c.x[0].upsample_bilinear2d(c.u[0], c.u[1], false);
                "upsample_bilinear_aligned" MATRIX upsample2d   Calm   New     Scaled(BLEND, judge::LINEAR), |c| c.x[0].upsample_bilinear2d(c.u[0], c.u[1], true);

                "softmax_last_dim"          MATRIX nonempty     Any    New     Formula(SOFTMAX, judge::FIXED, SOFTMAX_F64), |c| candle_nn::ops::softmax_last_dim(&c.x[0].contiguous()?);
                "softmax"                   STEADY dim          Open   New     Near(STEPS),     |c| candle_nn::ops::softmax(&c.x[0], c.u[0]);
                "log_softmax"               STEADY dim          Calm   New     Scaled(SUM, judge::LINEAR), |c| candle_nn::ops::log_softmax(&c.x[0], c.u[0]);
                "log_sum_exp"               STEADY dim          Calm   New     Scaled(SUM, judge::LINEAR), |c| c.x[0].log_sum_exp(c.u[0]);
                "rms_norm"                  NARROW rms_norm     Calm   New     Formula(NORM, judge::LINEAR, RMS_F64), |c| candle_nn::ops::rms_norm(&c.x[0].contiguous()?, &c.x[1].contiguous()?, c.f[0] as f32);
                "layer_norm"                NARROW layer_norm   Calm   New     Formula(NORM, judge::SPREAD, LAYER_F64), |c| candle_nn::ops::layer_norm(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?, c.f[0] as f32);
                "rope"                      MATRIX rope         Calm   New     Formula(ROPE, judge::PRODUCT, ROPE_F64), |c| candle_nn::rotary_emb::rope(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
                "rope_i"                    MATRIX rope         Calm   New     Formula(ROPE, judge::PRODUCT, ROPE_I_F64), |c| candle_nn::rotary_emb::rope_i(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
                "rope_thd"                  MATRIX rope_thd     Calm   New     Formula(ROPE, judge::PRODUCT, ROPE_THD_F64), |c| candle_nn::rotary_emb::rope_thd(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
};

/// Every row that may be drawn.
pub static OPS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let own = |after: &'static str| OWN.iter().copied().filter(move |row| row.after == after);
    let shared = ops::OPS.iter();
    let shared = shared.flat_map(|op| iter::once(Row::of(op)).chain(own(op.name)));
    shared.chain(own("")).collect()
});

impl Row {
    /// A row of the shared table.
    fn of(op: &Op) -> Row {
        // The CPU's relu of NaN is NaN in f8e4m3, and 0 in all other dtypes.
        let near = match op.bound == EXACT && op.name != "relu" {
            true => Same,
            false => Near(op.bound),
        };
        let (draw, judge, memory): (Draw, Judge, Memory) = match (op.family, op.name) {
            (Family::Unary, _) => (draw::unary, near, New),
            (Family::Scalars, "powf") => (draw::power, near, New),
            (Family::Scalars, "affine") => (draw::scalars, Scaled(op.bound, judge::LINEAR), New),
            (Family::Scalars, _) => (draw::scalars, near, New),
            (Family::Binary | Family::Compare, _) => (draw::binary, near, New),
            (Family::Sum, _) => (draw::dims, Scaled(op.bound, judge::SUMMED), View),
            (Family::Extremum, _) => (draw::dim, near, New),
        };
        Row {
            after: "",
            name: op.name,
            dtypes: op.dtypes,
            draw,
            wants: op.wants,
            judge,
            memory,
            apply: op.apply,
            text: op.text,
        }
    }
}

/// The row of this name.
pub fn named(name: &str) -> Option<&'static Row> {
    OPS.iter().find(|row| row.name == name)
}
