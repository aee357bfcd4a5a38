//! OPS: the elementwise ops and reductions, one row each. The conformance suite, the fuzzer, docs/SUPPORT.md and the check of
//! candle-webgpu's names derive from it.

use candle_core::op::{
    Abs, Add, BinaryOpT, Ceil, Cos, Div, Erf, Exp, Floor, Gelu, GeluErf, Log, Maximum, Minimum,
    Mul, Neg, Recip, Relu, Round, Sign, Silu, Sin, Sqr, Sqrt, Sub, Tanh, UnaryOpT,
};
use candle_core::{DType, Tensor};
use DType::{BF16, F16, F32, F64, I16, I32, I64, U32, U8};

use super::bound::{Bound, AFFINE, ARITH, EXACT, FUNCTION, PERIODIC, POWF, SUM};
use super::input::{ALL, REALS};

/// Arguments of an op: operands, sizes or dims, scalars, and the dtype of the result of a cast.
pub struct Cx<'a> {
    pub x: &'a [Tensor],
    pub u: &'a [usize],
    pub f: &'a [f64],
    pub to: DType,
}

pub type Apply = fn(&Cx) -> candle_core::Result<Tensor>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Unary,
    /// One operand, and one or two scalars.
    Scalars,
    Binary,
    /// Two operands; the result is a u8.
    Compare,
    /// Along any dims.
    Sum,
    /// Along one dim.
    Extremum,
}

/// Values for which a row's bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// All values.
    Any,
    /// No f32 subnormals, which WGSL allows an adapter to flush to zero in arithmetic.
    Normal,
    /// Normal, and of magnitude at most 16, infinite or NaN.
    Open,
    /// Normal, finite and of magnitude at most 16: integers do not wrap, and no product is of 0 and infinity.
    Calm,
}

pub struct Op {
    pub family: Family,
    pub name: &'static str,
    /// Candle's KERNEL string: the name of the row of candle-webgpu's OPS.
    pub kernel: &'static str,
    pub dtypes: &'static [DType],
    /// How far the device may be from the CPU, which computes floats in f64.
    pub bound: Bound,
    /// Operands that the fuzzer may draw.
    pub wants: Wants,
    /// Dtypes for which upstream's CUDA and Metal backends have a kernel, by their sources.
    pub cuda: &'static [DType],
    pub metal: &'static [DType],
    pub apply: Apply,
    /// The source of `apply`, which the fuzzer prints.
    pub text: &'static str,
}

pub const F: &[DType] = &[BF16, F16, F32];
pub const F_F64: &[DType] = &[BF16, F16, F32, F64];
pub const F_INT: &[DType] = &[BF16, F16, F32, U8, U32, I64];
pub const F_F64_INT: &[DType] = &[BF16, F16, F32, F64, U8, U32, I64];
const NO_F8: &[DType] = &[BF16, F16, F32, F64, U8, U32, I16, I32, I64];

macro_rules! ops {
    ($($family:ident $name:literal $kernel:expr, $dtypes:ident $bound:ident $wants:ident $cuda:ident $metal:ident $apply:expr;)*) => {
        &[$(Op {
            family: Family::$family,
            name: $name,
            kernel: $kernel,
            dtypes: &$dtypes,
            bound: $bound,
            wants: Wants::$wants,
            cuda: $cuda,
            metal: $metal,
            apply: $apply,
            text: stringify!($apply),
        }),*]
    };
}

#[rustfmt::skip]
pub static OPS: &[Op] = ops! {
    // family name     kernel            dtypes bound    wants  CUDA      Metal
    Unary    "exp"      Exp::KERNEL,     REALS  FUNCTION Any    F_F64     F     |c| c.x[0].exp();
    Unary    "log"      Log::KERNEL,     REALS  FUNCTION Any    F_F64     F     |c| c.x[0].log();
    Unary    "sin"      Sin::KERNEL,     REALS  PERIODIC Any    F_F64     F     |c| c.x[0].sin();
    Unary    "cos"      Cos::KERNEL,     REALS  PERIODIC Any    F_F64     F     |c| c.x[0].cos();
    Unary    "tanh"     Tanh::KERNEL,    REALS  FUNCTION Any    F_F64     F     |c| c.x[0].tanh();
    Unary    "neg"      Neg::KERNEL,     REALS  EXACT    Any    F_F64     F     |c| c.x[0].neg();
    Unary    "recip"    Recip::KERNEL,   REALS  ARITH    Normal F_F64     F     |c| c.x[0].recip();
    Unary    "sqr"      Sqr::KERNEL,     REALS  ARITH    Any    F_F64     F     |c| c.x[0].sqr();
    Unary    "sqrt"     Sqrt::KERNEL,    REALS  ARITH    Any    F_F64     F     |c| c.x[0].sqrt();
    Unary    "gelu"     Gelu::KERNEL,    REALS  FUNCTION Any    F_F64     F     |c| c.x[0].gelu();
    Unary    "gelu_erf" GeluErf::KERNEL, REALS  FUNCTION Any    F_F64     F     |c| c.x[0].gelu_erf();
    Unary    "erf"      Erf::KERNEL,     REALS  FUNCTION Any    F_F64     F     |c| c.x[0].erf();
    Unary    "silu"     Silu::KERNEL,    REALS  FUNCTION Any    F_F64     F     |c| c.x[0].silu();
    Unary    "sigmoid"  "usigmoid",      REALS  FUNCTION Any    F_F64     F     |c| candle_nn::ops::sigmoid(&c.x[0]);
    Unary    "abs"      Abs::KERNEL,     ALL    EXACT    Any    F_F64     F     |c| c.x[0].abs();
    Unary    "ceil"     Ceil::KERNEL,    ALL    EXACT    Any    F_F64     F     |c| c.x[0].ceil();
    Unary    "floor"    Floor::KERNEL,   ALL    EXACT    Any    F_F64     F     |c| c.x[0].floor();
    Unary    "round"    Round::KERNEL,   ALL    EXACT    Any    F_F64     F     |c| c.x[0].round();
    Unary    "relu"     Relu::KERNEL,    ALL    EXACT    Any    F_F64     F     |c| c.x[0].relu();
    Unary    "sign"     Sign::KERNEL,    ALL    EXACT    Any    F_F64     F     |c| c.x[0].sign();
    Scalars  "powf"     "powf",          REALS  POWF     Normal F_F64     F     |c| c.x[0].powf(c.f[0]);
    Scalars  "elu"      "elu",           REALS  FUNCTION Any    F_F64     F     |c| c.x[0].elu(c.f[0]);
    Scalars  "affine"   "affine",        ALL    AFFINE   Calm   NO_F8     F_INT |c| c.x[0].affine(c.f[0], c.f[1]);
    Binary   "add"      Add::KERNEL,     ALL    ARITH    Calm   F_F64_INT F_INT |c| c.x[0].add(&c.x[1]);
    Binary   "sub"      Sub::KERNEL,     ALL    ARITH    Calm   F_F64_INT F_INT |c| c.x[0].sub(&c.x[1]);
    Binary   "mul"      Mul::KERNEL,     ALL    ARITH    Calm   F_F64_INT F_INT |c| c.x[0].mul(&c.x[1]);
    Binary   "div"      Div::KERNEL,     ALL    ARITH    Calm   F_F64_INT F_INT |c| c.x[0].div(&c.x[1]);
    Binary   "minimum"  Minimum::KERNEL, ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].minimum(&c.x[1]);
    Binary   "maximum"  Maximum::KERNEL, ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].maximum(&c.x[1]);
    Compare  "eq"       "eq",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].eq(&c.x[1]);
    Compare  "ne"       "ne",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].ne(&c.x[1]);
    Compare  "le"       "le",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].le(&c.x[1]);
    Compare  "ge"       "ge",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].ge(&c.x[1]);
    Compare  "lt"       "lt",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].lt(&c.x[1]);
    Compare  "gt"       "gt",            ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].gt(&c.x[1]);
    Sum      "sum"      "sum",           ALL    SUM      Open   F_F64_INT F_INT |c| c.x[0].sum(c.u);
    Extremum "min"      "min",           ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].min(c.u[0]);
    Extremum "max"      "max",           ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].max(c.u[0]);
    Extremum "argmin"   "argmin",        ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].argmin(c.u[0]);
    Extremum "argmax"   "argmax",        ALL    EXACT    Any    F_F64_INT F_INT |c| c.x[0].argmax(c.u[0]);
};

/// The rows of a family.
pub fn of(family: Family) -> impl Iterator<Item = &'static Op> {
    OPS.iter().filter(move |op| op.family == family)
}

impl Op {
    /// Applies the op to the operands `x` along `dims` with `scalars`.
    pub fn run(
        &self,
        x: &[Tensor],
        dims: &[usize],
        scalars: &[f64],
    ) -> candle_core::Result<Tensor> {
        let to = F32;
        (self.apply)(&Cx {
            x,
            u: dims,
            f: scalars,
            to,
        })
    }
}
