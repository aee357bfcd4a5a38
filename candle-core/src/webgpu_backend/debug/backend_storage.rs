//! `CANDLE_WEBGPU_VERIFY=1`: runs each op of `BackendStorage` on the CPU, too. The methods have the names of the trait's. Inherent
//! methods come first, so candle-core's `Storage` calls these.

use std::fmt::Debug;

use super::{before, reference, Call};
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::webgpu_backend::storage::cmp_name;
use crate::webgpu_backend::WebGpuStorage;
use crate::{DType, Layout, Result};

/// Methods that return a new storage. A row is the signature of the trait without `self`, followed by
///
/// - `reads`: the layout of `self`, then each other storage with its layout;
/// - `shows`: the other arguments;
/// - `in f32`: the CPU computes f16 in f32 ([`Call::in_f32`]);
/// - `as`: the name in messages, if it is not the method's;
/// - `by`: the function that runs on the CPU, if it is not the trait's method.
macro_rules! forward {
    ($(
        fn $name:ident $(<$of:ident: $bound:ident>)? ($($arg:ident: $ty:ty),*)
            reads ($l:ident $(, $other:ident $other_l:ident)*) shows ($($shown:ident),*)
            $(in $wide:ident)? $(as $op:expr)? $(, by $cpu:path)?;
    )*) => {$(
        pub(crate) fn $name $(<$of: $bound>)? (&self, $($arg: $ty),*) -> Result<Self> {
            let operands = [("self", self, $l) $(, (stringify!($other), $other, $other_l))*];
            let result = BackendStorage::$name $(::<$of>)? (self, $($arg),*)?;
            let shown: &[(&'static str, &dyn Debug)] = &[$((stringify!($shown), &$shown)),*];
            let call = Call::new(forward!(@op $name $($op)?), &operands).with(shown);
            forward!(@call call $($wide)?)
                .check(&result, |copies| match copies {
                    [(this, $l) $(, ($other, $other_l))*] => {
                        forward!(@cpu $name $(<$of>)? $($cpu)?)(this, $($arg),*)
                    }
                    _ => unreachable!("a copy of each operand"),
                })?;
            Ok(result)
        }
    )*};
    (@call $call:ident) => { $call };
    (@call $call:ident f32) => { $call.in_f32() };
    (@op $name:ident) => { stringify!($name) };
    (@op $name:ident $op:expr) => { $op };
    (@cpu $name:ident $(<$of:ident>)?) => { BackendStorage::$name $(::<$of>)? };
    (@cpu $name:ident $cpu:path) => { $cpu };
}

/// Methods that write to `self`, with rows as in `forward!`.
macro_rules! forward_in_place {
    ($(
        fn $name:ident($($arg:ident: $ty:ty),*)
            reads ($l:ident $(, $other:ident $other_l:ident)*) shows ($($shown:ident),*);
    )*) => {$(
        pub(crate) fn $name(&mut self, $($arg: $ty),*) -> Result<()> {
            let before = before(self)?;
            BackendStorage::$name(self, $($arg),*)?;
            let operands = [("self", &*self, $l) $(, (stringify!($other), $other, $other_l))*];
            Call::new(stringify!($name), &operands)
                .with(&[$((stringify!($shown), &$shown)),*])
                .check_in_place(before, |this, copies| match copies {
                    [$(($other, $other_l)),*] => BackendStorage::$name(this, $($arg),*),
                    _ => unreachable!("a copy of each operand"),
                })
        }
    )*};
}

impl WebGpuStorage {
    forward! {
        fn affine(l: &Layout, mul: f64, add: f64) reads (l) shows (mul, add);
        fn powf(l: &Layout, exponent: f64) reads (l) shows (exponent);
        fn elu(l: &Layout, alpha: f64) reads (l) shows (alpha);
        fn reduce_op(op: ReduceOp, l: &Layout, dims: &[usize]) reads (l) shows (dims) as op.name(), by reference::reduce_op;
        fn cmp(op: CmpOp, rhs: &Self, l: &Layout, rhs_l: &Layout) reads (l, rhs rhs_l) shows () as cmp_name(op);
        fn to_dtype(l: &Layout, dtype: DType) reads (l) shows (dtype), by reference::to_dtype;
        fn unary_impl<B: UnaryOpT>(l: &Layout) reads (l) shows () as B::KERNEL;
        fn binary_impl<B: BinaryOpT>(rhs: &Self, l: &Layout, rhs_l: &Layout) reads (l, rhs rhs_l) shows () as B::KERNEL;
        fn where_cond(l: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) reads (l, t t_l, f f_l) shows ();
        fn conv1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv1D) reads (l, k k_l) shows (p) in f32;
        fn conv_transpose1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConvTranspose1D)
            reads (l, k k_l) shows (p), by reference::conv_transpose1d;
        fn conv2d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv2D) reads (l, k k_l) shows (p) in f32;
        fn conv_transpose2d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConvTranspose2D) reads (l, k k_l) shows (p);
        fn avg_pool2d(l: &Layout, k: (usize, usize), stride: (usize, usize)) reads (l) shows (k, stride);
        fn max_pool2d(l: &Layout, k: (usize, usize), stride: (usize, usize)) reads (l) shows (k, stride);
        fn upsample_nearest1d(l: &Layout, size: usize) reads (l) shows (size);
        fn upsample_nearest2d(l: &Layout, h: usize, w: usize) reads (l) shows (h, w);
        fn upsample_bilinear2d(l: &Layout, h: usize, w: usize, align_corners: bool, scale_h: Option<f64>, scale_w: Option<f64>)
            reads (l) shows (h, w, align_corners, scale_h, scale_w), by reference::upsample_bilinear2d;
        fn gather(l: &Layout, ids: &Self, ids_l: &Layout, dim: usize) reads (l, ids ids_l) shows (dim);
        fn index_select(ids: &Self, l: &Layout, ids_l: &Layout, dim: usize) reads (l, ids ids_l) shows (dim);
        fn index_add(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize)
            reads (l, ids ids_l, src src_l) shows (dim);
        fn matmul(rhs: &Self, bmnk: (usize, usize, usize, usize), l: &Layout, rhs_l: &Layout)
            reads (l, rhs rhs_l) shows (bmnk) in f32;
    }

    forward_in_place! {
        fn scatter_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize)
            reads (l, ids ids_l, src src_l) shows (dim);
        fn scatter_add_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize)
            reads (l, ids ids_l, src src_l) shows (dim);
        fn const_set(v: Scalar, l: &Layout) reads (l) shows (v);
    }

    pub(crate) fn copy_strided_src(
        &self,
        dst: &mut Self,
        dst_offset: usize,
        l: &Layout,
    ) -> Result<()> {
        let before = before(dst)?;
        BackendStorage::copy_strided_src(self, dst, dst_offset, l)?;
        if before.is_none() {
            return Ok(());
        }
        let operands = [("dst", &*dst, &dst.layout()), ("self", self, l)];
        Call::new("copy_strided_src", &operands)
            .with(&[("dst_offset", &dst_offset)])
            .check_in_place(before, |dst, src| {
                src[0].0.copy_strided_src(dst, dst_offset, &src[0].1)
            })
    }

    #[allow(clippy::too_many_arguments, reason = "as in the trait")]
    pub(crate) fn copy2d(
        &self,
        dst: &mut Self,
        d1: usize,
        d2: usize,
        src_s: usize,
        dst_s: usize,
        src_o: usize,
        dst_o: usize,
    ) -> Result<()> {
        let before = before(dst)?;
        BackendStorage::copy2d(self, dst, d1, d2, src_s, dst_s, src_o, dst_o)?;
        if before.is_none() {
            return Ok(());
        }
        let operands = [
            ("dst", &*dst, &dst.layout()),
            ("self", self, &self.layout()),
        ];
        Call::new("copy2d", &operands)
            .with(&[
                ("dims", &(d1, d2)),
                ("strides", &(src_s, dst_s)),
                ("offsets", &(src_o, dst_o)),
            ])
            .check_in_place(before, |dst, src| {
                src[0].0.copy2d(dst, d1, d2, src_s, dst_s, src_o, dst_o)
            })
    }
}
