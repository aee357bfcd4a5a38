//! OPS: every op that is drawn, one row each: its text is what runs and what a reproduction prints.

use candle_core::{DType, Tensor, D};
use candle_nn::{ops, rotary_emb};

use crate::bound::{
    Bound, AFFINE, ARITH, EXACT, FUNCTION, MATMUL, NORM, PERIODIC, POWF, ROPE, SOFTMAX, SUM,
};
use crate::draw::Drawer;
use crate::family::{self as draw};
use crate::graph::Call;
use crate::input::{ALL, REALS};
use crate::judge::{self, Scale};

/// What a row's text speaks of: operands, sizes, scalars, a dtype.
pub struct Cx<'a> {
    pub x: &'a [Tensor],
    pub u: &'a [usize],
    pub f: &'a [f64],
    pub to: DType,
}

pub type Apply = fn(&Cx) -> candle_core::Result<Tensor>;

/// Draws operands and parameters for a dtype.
pub type Draw = fn(&mut Drawer, DType) -> Option<Call>;

/// Values that a row's bound is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// All bits there are.
    Any,
    /// No f32 subnormals, which WGSL lets an adapter flush to zero in arithmetic.
    Normal,
    /// Within 16, or infinite, or NaN: what is finite stays in reach of the bound.
    Open,
    /// Finite and within 16: integers do not wrap, and no product is of 0 and an infinity.
    Calm,
}

/// How a node's value is compared with the CPU's from the same operands.
#[derive(Clone, Copy)]
pub enum Judge {
    /// The CPU in the same dtype, to the last bit (either zero, any NaN).
    Same,
    /// The CPU's cast, but where that is wrong.
    Cast,
    /// The CPU in f64.
    Near(Bound),
    /// The CPU in f64; the absolute part is for operands of the usual size and grows with them.
    Scaled(Bound, Scale),
    /// The CPU in f64; the absolute part grows with the sums of the terms' magnitudes.
    Dots(Bound),
    /// The CPU in f64, by another text: the row's own has no f64 there.
    Formula(Bound, Scale, Apply),
    /// The operand's rows, sorted upwards.
    Sorted,
    /// Positions that sort the operand; true is ascending.
    Order(bool),
}

/// What a row does to storages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Contiguous, in a storage of its own.
    New,
    /// May share the first operand's storage, or lie in it with gaps.
    View,
    /// Writes into the first operand's storage and gives it.
    InPlace,
}

pub struct Row {
    pub name: &'static str,
    pub dtypes: &'static [DType],
    pub draw: Draw,
    pub wants: Wants,
    pub judge: Judge,
    pub memory: Memory,
    pub apply: Apply,
    pub text: &'static str,
}

/// Dtypes of matrices.
pub const MATRIX: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F64];
const NARROW: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// Dtypes that round little enough for an op of several steps to be compared with f64.
const STEADY: &[DType] = &[DType::F32, DType::F64];

/// Between two numbers within 2.
const BLEND: Bound = Bound {
    abs: 1e-6,
    rel: 1e-6,
    ulps: 1,
};
/// Each step rounds, the difference to the greatest element first.
const STEPS: Bound = Bound {
    rel: 8e-6,
    ..SOFTMAX
};

use Judge::{Cast, Dots, Formula, Near, Order, Same, Scaled, Sorted};
use Memory::{InPlace, New, View};
use Wants::{Any, Calm, Normal, Open};

macro_rules! rows {
    ($($name:literal $dtypes:ident $draw:ident $wants:ident $memory:ident $judge:expr, $apply:expr;)*) => {
        &[$(Row {
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

/// The CPU refuses most of the strides that come of it.
const CUMSUM: Apply = |c| {
    let last = c.x[0].rank() - 1;
    let x = c.x[0].transpose(c.u[0], last)?.contiguous()?;
    x.cumsum(last)?.transpose(c.u[0], last)
};
/// Softmax over the last dim has no f64 on the CPU.
const SOFTMAX_F64: Apply = |c| ops::softmax(&c.x[0], D::Minus1);
const RMS_F64: Apply = |c| ops::rms_norm_slow(&c.x[0], &c.x[1], c.f[0] as f32);
const LAYER_F64: Apply = |c| ops::layer_norm_slow(&c.x[0], &c.x[1], &c.x[2], c.f[0] as f32);
const ROPE_F64: Apply = |c| rotary_emb::rope_slow(&c.x[0], &c.x[1], &c.x[2]);
const ROPE_I_F64: Apply = |c| rotary_emb::rope_i_slow(&c.x[0], &c.x[1], &c.x[2]);
const ROPE_THD_F64: Apply = |c| {
    let x = c.x[0].transpose(1, 2)?.contiguous()?;
    rotary_emb::rope_slow(&x, &c.x[1], &c.x[2])?.transpose(1, 2)
};

#[rustfmt::skip]
pub static OPS: &[Row] = rows! {
    // name             dtypes draw    wants  memory judge
    "exp"               REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].exp();
    "log"               REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].log();
    "sin"               REALS  map     Any    New  Near(PERIODIC),  |c| c.x[0].sin();
    "cos"               REALS  map     Any    New  Near(PERIODIC),  |c| c.x[0].cos();
    "tanh"              REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].tanh();
    "neg"               REALS  map     Any    New  Same,            |c| c.x[0].neg();
    "recip"             REALS  map     Normal New  Near(ARITH),     |c| c.x[0].recip();
    "sqr"               REALS  map     Any    New  Near(ARITH),     |c| c.x[0].sqr();
    "sqrt"              REALS  map     Any    New  Near(ARITH),     |c| c.x[0].sqrt();
    "gelu"              REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].gelu();
    "gelu_erf"          REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].gelu_erf();
    "erf"               REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].erf();
    "silu"              REALS  map     Any    New  Near(FUNCTION),  |c| c.x[0].silu();
    "sigmoid"           REALS  map     Any    New  Near(FUNCTION),  |c| candle_nn::ops::sigmoid(&c.x[0]);
    "leaky_relu"        REALS  map     Any    New  Near(ARITH),     |c| candle_nn::ops::leaky_relu(&c.x[0], 0.5);
    "hard_sigmoid"      STEADY map     Calm   New  Near(FUNCTION),  |c| candle_nn::ops::hard_sigmoid(&c.x[0]);
    "abs"               ALL    map     Any    New  Same,            |c| c.x[0].abs();
    "ceil"              ALL    map     Any    New  Same,            |c| c.x[0].ceil();
    "floor"             ALL    map     Any    New  Same,            |c| c.x[0].floor();
    "round"             ALL    map     Any    New  Same,            |c| c.x[0].round();
    "relu"              ALL    map     Any    New  Near(EXACT),            |c| c.x[0].relu();
    "sign"              ALL    map     Any    New  Same,            |c| c.x[0].sign();
    "powf"              REALS  power   Normal New  Near(POWF),      |c| c.x[0].powf(c.f[0]);
    "elu"               REALS  scalars Any    New  Near(FUNCTION),  |c| c.x[0].elu(c.f[0]);
    "affine"            ALL    scalars Calm   New  Scaled(AFFINE, judge::LINEAR), |c| c.x[0].affine(c.f[0], c.f[1]);
    "clamp"             ALL    clamp   Any    New  Same,            |c| c.x[0].clamp(c.f[0], c.f[1]);
    "to_dtype"          ALL    cast    Any    View Cast,            |c| c.x[0].to_dtype(c.to);

    "add"               ALL    pair    Calm   New  Near(ARITH),     |c| c.x[0].add(&c.x[1]);
    "sub"               ALL    pair    Calm   New  Near(ARITH),     |c| c.x[0].sub(&c.x[1]);
    "mul"               ALL    pair    Calm   New  Near(ARITH),     |c| c.x[0].mul(&c.x[1]);
    "div"               ALL    pair    Calm   New  Near(ARITH),     |c| c.x[0].div(&c.x[1]);
    "add_special"       REALS  pair    Any    New  Near(ARITH),     |c| c.x[0].add(&c.x[1]);
    "mul_special"       REALS  pair    Normal New  Near(ARITH),     |c| c.x[0].mul(&c.x[1]);
    "div_special"       REALS  pair    Normal New  Near(ARITH),     |c| c.x[0].div(&c.x[1]);
    "minimum"           ALL    pair    Any    New  Same,            |c| c.x[0].minimum(&c.x[1]);
    "maximum"           ALL    pair    Any    New  Same,            |c| c.x[0].maximum(&c.x[1]);
    "broadcast_add"     ALL    spread  Calm   New  Near(ARITH),     |c| c.x[0].broadcast_add(&c.x[1]);
    "broadcast_sub"     ALL    spread  Calm   New  Near(ARITH),     |c| c.x[0].broadcast_sub(&c.x[1]);
    "broadcast_mul"     ALL    spread  Calm   New  Near(ARITH),     |c| c.x[0].broadcast_mul(&c.x[1]);
    "broadcast_div"     ALL    spread  Calm   New  Near(ARITH),     |c| c.x[0].broadcast_div(&c.x[1]);
    "broadcast_maximum" ALL    spread  Any    New  Same,            |c| c.x[0].broadcast_maximum(&c.x[1]);
    "broadcast_lt"      ALL    spread  Any    New  Same,            |c| c.x[0].broadcast_lt(&c.x[1]);
    "eq"                ALL    pair    Any    New  Same,            |c| c.x[0].eq(&c.x[1]);
    "ne"                ALL    pair    Any    New  Same,            |c| c.x[0].ne(&c.x[1]);
    "le"                ALL    pair    Any    New  Same,            |c| c.x[0].le(&c.x[1]);
    "ge"                ALL    pair    Any    New  Same,            |c| c.x[0].ge(&c.x[1]);
    "lt"                ALL    pair    Any    New  Same,            |c| c.x[0].lt(&c.x[1]);
    "gt"                ALL    pair    Any    New  Same,            |c| c.x[0].gt(&c.x[1]);
    "where_cond"        ALL    choose  Any    New  Same,            |c| c.x[0].where_cond(&c.x[1], &c.x[2]);

    "sum"               ALL    dims    Open   View Scaled(SUM, judge::SUMMED), |c| c.x[0].sum(c.u);
    "sum_keepdim"       ALL    dims    Open   View Scaled(SUM, judge::SUMMED), |c| c.x[0].sum_keepdim(c.u);
    "sum_all"           ALL    map     Open   New  Scaled(SUM, judge::SUMMED), |c| c.x[0].sum_all();
    "mean"              STEADY dims    Calm   New  Scaled(SUM, judge::MEAN), |c| c.x[0].mean(c.u);
    "var"               STEADY dim     Calm   New  Scaled(SUM, judge::SQUARE), |c| c.x[0].var(c.u[0]);
    "min"               ALL    dim     Any    New  Same,            |c| c.x[0].min(c.u[0]);
    "max"               ALL    dim     Any    New  Same,            |c| c.x[0].max(c.u[0]);
    "max_keepdim"       ALL    dim     Any    New  Same,            |c| c.x[0].max_keepdim(c.u[0]);
    "min_all"           ALL    order   Any    New  Same,            |c| c.x[0].min_all();
    "max_all"           ALL    order   Any    New  Same,            |c| c.x[0].max_all();
    "argmin"            ALL    dim     Any    New  Same,            |c| c.x[0].argmin(c.u[0]);
    "argmax"            ALL    dim     Any    New  Same,            |c| c.x[0].argmax(c.u[0]);
    "cumsum"            MATRIX dim     Calm   View Formula(SUM, judge::RUNNING, CUMSUM), |c| c.x[0].cumsum(c.u[0]);
    "sort"              ALL    order   Any    New  Sorted,            |c| c.x[0].contiguous()?.sort_last_dim(true).map(|s| s.0);
    "argsort"           ALL    order   Any    New  Order(true),     |c| c.x[0].contiguous()?.arg_sort_last_dim(true);
    "argsort_desc"      ALL    order   Any    New  Order(false),    |c| c.x[0].contiguous()?.arg_sort_last_dim(false);

    "reshape"           ALL    reshape Any    View Same,            |c| c.x[0].reshape(c.u);
    "flatten_all"       ALL    map     Any    View Same,            |c| c.x[0].flatten_all();
    "narrow"            ALL    narrow  Any    View Same,            |c| c.x[0].narrow(c.u[0], c.u[1], c.u[2]);
    "transpose"         ALL    two     Any    View Same,            |c| c.x[0].transpose(c.u[0], c.u[1]);
    "permute"           ALL    permute Any    View Same,            |c| c.x[0].permute(c.u);
    "broadcast_as"      ALL    widen   Any    View Same,            |c| c.x[0].broadcast_as(c.u);
    "unsqueeze"         ALL    gap     Any    View Same,            |c| c.x[0].unsqueeze(c.u[0]);
    "squeeze"           ALL    squeeze Any    View Same,            |c| c.x[0].squeeze(c.u[0]);
    "contiguous"        ALL    map     Any    View Same,            |c| c.x[0].contiguous();
    "copy"              ALL    map     Any    View Same,            |c| c.x[0].copy();
    "force_contiguous"  ALL    map     Any    New  Same,            |c| c.x[0].force_contiguous();
    "repeat"            ALL    repeat  Any    View Same,            |c| c.x[0].repeat(c.u);
    "roll"              ALL    roll    Any    View Same,            |c| c.x[0].roll(c.u[1] as i32, c.u[0]);
    "flip"              ALL    flip    Any    View Same,            |c| c.x[0].flip(c.u);
    "unfold"            ALL    unfold  Any    View Same,            |c| c.x[0].unfold(c.u[0], c.u[1], c.u[2]);
    "cat"               ALL    cat     Any    View Same,            |c| Tensor::cat(c.x, c.u[0]);
    "stack"             ALL    stack   Any    View Same,            |c| Tensor::stack(c.x, c.u[0]);
    "pad_with_zeros"    ALL    pad     Any    View Same,            |c| c.x[0].pad_with_zeros(c.u[0], c.u[1], c.u[2]);
    "pad_with_same"     ALL    pad     Any    View Same,            |c| c.x[0].pad_with_same(c.u[0], c.u[1], c.u[2]);

    "index_select"      ALL    select  Any    New  Same,            |c| c.x[0].index_select(&c.x[1], c.u[0]);
    "gather"            ALL    gather  Any    New  Same,            |c| c.x[0].gather(&c.x[1], c.u[0]);
    "scatter"           ALL    scatter Any    New  Same,            |c| c.x[0].scatter(&c.x[1], &c.x[2], c.u[0]);
    "scatter_add"       ALL    scatter Calm New Scaled(SUM, judge::ADDED), |c| c.x[0].scatter_add(&c.x[1], &c.x[2], c.u[0]);
    "index_add"         ALL    index_add Calm New  Scaled(SUM, judge::ADDED), |c| c.x[0].index_add(&c.x[1], &c.x[2], c.u[0]);
    "slice_scatter"     ALL    slice   Any    View Same,            |c| c.x[0].slice_scatter(&c.x[1], c.u[0], c.u[1]);

    "slice_set"         ALL    own_slice Any  InPlace Same,         |c| c.x[0].slice_set(&c.x[1].contiguous()?, c.u[0], c.u[1]).map(|()| c.x[0].clone());
    "zero_set"          ALL    own     Any    InPlace Same,         |c| c.x[0].zero_set().map(|()| c.x[0].clone());
    "one_set"           ALL    own     Any    InPlace Same,         |c| c.x[0].one_set().map(|()| c.x[0].clone());
    "zero_set_part"     ALL    own_part Any   InPlace Same,         |c| c.x[0].narrow(c.u[0], c.u[1], c.u[2])?.zero_set().map(|()| c.x[0].clone());
    "scatter_set"       ALL    own_scatter Any InPlace Same,        |c| c.x[0].scatter_set(&c.x[1], &c.x[2], c.u[0]).map(|()| c.x[0].clone());
    "scatter_add_set"   ALL    own_scatter Calm InPlace Scaled(SUM, judge::ADDED), |c| c.x[0].scatter_add_set(&c.x[1], &c.x[2], c.u[0]).map(|()| c.x[0].clone());

    "matmul"            MATRIX matmul  Open   New  Dots(MATMUL), |c| c.x[0].matmul(&c.x[1]);
    "matmul_t"          MATRIX matmul_t Open  New  Dots(MATMUL), |c| c.x[0].matmul(&c.x[1].t()?);
    "broadcast_matmul"  MATRIX shared  Open   New  Dots(MATMUL), |c| c.x[0].broadcast_matmul(&c.x[1]);
    "conv1d"            MATRIX conv1d  Calm   View Dots(MATMUL), |c| c.x[0].conv1d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
    "conv2d"            MATRIX conv2d  Calm   View Dots(MATMUL), |c| c.x[0].conv2d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
    "conv_transpose1d"  MATRIX back1d  Calm   View Dots(MATMUL), |c| c.x[0].conv_transpose1d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3], 1);
    "conv_transpose2d"  MATRIX back2d  Calm   View Dots(MATMUL), |c| c.x[0].conv_transpose2d(&c.x[1], c.u[0], c.u[1], c.u[2], c.u[3]);
    "max_pool2d"        ALL    pool    Any    New  Same,            |c| c.x[0].max_pool2d_with_stride((c.u[0], c.u[1]), (c.u[2], c.u[3]));
    "avg_pool2d"        MATRIX pool    Open   New  Scaled(SUM, judge::LINEAR), |c| c.x[0].avg_pool2d_with_stride((c.u[0], c.u[1]), (c.u[2], c.u[3]));
    "upsample_nearest1d" ALL   longer  Any    New  Same,            |c| c.x[0].upsample_nearest1d(c.u[0]);
    "upsample_nearest2d" ALL   larger  Any    New  Same,            |c| c.x[0].upsample_nearest2d(c.u[0], c.u[1]);
    "upsample_bilinear" MATRIX larger  Calm   New  Scaled(BLEND, judge::LINEAR), |c| c.x[0].upsample_bilinear2d(c.u[0], c.u[1], false);
    "upsample_bilinear_aligned" MATRIX larger Calm New Scaled(BLEND, judge::LINEAR), |c| c.x[0].upsample_bilinear2d(c.u[0], c.u[1], true);

    "softmax_last_dim"  MATRIX rows    Any    New  Formula(SOFTMAX, judge::FIXED, SOFTMAX_F64), |c| candle_nn::ops::softmax_last_dim(&c.x[0].contiguous()?);
    "softmax"           STEADY dim     Open   New  Near(STEPS),     |c| candle_nn::ops::softmax(&c.x[0], c.u[0]);
    "log_softmax"       STEADY dim     Calm   New  Scaled(SUM, judge::LINEAR), |c| candle_nn::ops::log_softmax(&c.x[0], c.u[0]);
    "log_sum_exp"       STEADY dim     Calm   New  Scaled(SUM, judge::LINEAR), |c| c.x[0].log_sum_exp(c.u[0]);
    "rms_norm"          NARROW weighed Calm   New  Formula(NORM, judge::LINEAR, RMS_F64), |c| candle_nn::ops::rms_norm(&c.x[0].contiguous()?, &c.x[1].contiguous()?, c.f[0] as f32);
    "layer_norm"        NARROW shifted Calm   New  Formula(NORM, judge::SPREAD, LAYER_F64), |c| candle_nn::ops::layer_norm(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?, c.f[0] as f32);
    "rope"              MATRIX rope    Calm   New  Formula(ROPE, judge::PRODUCT, ROPE_F64), |c| candle_nn::rotary_emb::rope(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
    "rope_i"            MATRIX rope    Calm   New  Formula(ROPE, judge::PRODUCT, ROPE_I_F64), |c| candle_nn::rotary_emb::rope_i(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
    "rope_thd"          MATRIX rope_thd Calm  New  Formula(ROPE, judge::PRODUCT, ROPE_THD_F64), |c| candle_nn::rotary_emb::rope_thd(&c.x[0].contiguous()?, &c.x[1].contiguous()?, &c.x[2].contiguous()?);
};

/// The row of this name.
pub fn named(name: &str) -> Option<&'static Row> {
    OPS.iter().find(|row| row.name == name)
}
