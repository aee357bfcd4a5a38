//! Candle's entry points: [`BackendStorage`], custom ops, attention and quantized matrices. Each runs the op in `storage.rs`,
//! `nn.rs` or `quantized/webgpu.rs` and describes it with a [`Call`], which compares the result with the CPU's if
//! `CANDLE_WEBGPU_VERIFY=1`.

use candle_webgpu::kernel::attention::Attention;

use super::debug::{self, reference, Call};
use super::storage::cmp_name;
use super::{nn, WebGpuDevice, WebGpuStorage};
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::quantized::webgpu::QWebGpuStorage;
use crate::scalar::Scalar;
use crate::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor,
};

type Forward = Result<(WebGpuStorage, Shape)>;

/// Methods that return a new storage. A row is the signature of the trait without `self`, followed by
///
/// - `reads`: the layout of `self`, then each other storage with its layout;
/// - `shows`: the other arguments;
/// - `as`: the name in messages, if it is not the method's;
/// - `by`: the function that runs on the CPU, if it is not the trait's method.
macro_rules! forward {
    ($(
        fn $name:ident $(<$of:ident: $bound:ident>)? ($($arg:ident: $ty:ty),*)
            reads ($l:ident $(, $other:ident $other_l:ident)*) shows ($($shown:ident),*)
            $(as $op:expr)? $(, by $cpu:path)?;
    )*) => {$(
        fn $name $(<$of: $bound>)? (&self, $($arg: $ty),*) -> Result<Self> {
            let operands = [("self", self, $l) $(, (stringify!($other), $other, $other_l))*];
            Call::new(forward!(@op $name $($op)?), &operands)
                .with(&[$((stringify!($shown), &$shown)),*])
                .check(WebGpuStorage::$name $(::<$of>)? (self, $($arg),*), |copies| match copies {
                    [(this, $l) $(, ($other, $other_l))*] => {
                        forward!(@cpu $name $(<$of>)? $($cpu)?)(this, $($arg),*)
                    }
                    _ => unreachable!("a copy of each operand"),
                })
        }
    )*};
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
        fn $name(&mut self, $($arg: $ty),*) -> Result<()> {
            let before = debug::before(self)?;
            WebGpuStorage::$name(self, $($arg),*)?;
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

impl BackendStorage for WebGpuStorage {
    type Device = WebGpuDevice;

    fn try_clone(&self, _: &Layout) -> Result<Self> {
        self.copy()
    }

    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn device(&self) -> &WebGpuDevice {
        self.device()
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        self.to_cpu_storage()
    }

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
        fn conv1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv1D) reads (l, k k_l) shows (p);
        fn conv_transpose1d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConvTranspose1D)
            reads (l, k k_l) shows (p), by reference::conv_transpose1d;
        fn conv2d(l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv2D) reads (l, k k_l) shows (p);
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
            reads (l, rhs rhs_l) shows (bmnk);
    }

    forward_in_place! {
        fn scatter_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize)
            reads (l, ids ids_l, src src_l) shows (dim);
        fn scatter_add_set(l: &Layout, ids: &Self, ids_l: &Layout, src: &Self, src_l: &Layout, dim: usize)
            reads (l, ids ids_l, src src_l) shows (dim);
        fn const_set(v: Scalar, l: &Layout) reads (l) shows (v);
    }

    fn copy_strided_src(&self, dst: &mut Self, dst_offset: usize, l: &Layout) -> Result<()> {
        let before = debug::before(dst)?;
        WebGpuStorage::copy_strided_src(self, dst, dst_offset, l)?;
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

    fn copy2d(
        &self,
        dst: &mut Self,
        d1: usize,
        d2: usize,
        src_s: usize,
        dst_s: usize,
        src_o: usize,
        dst_o: usize,
    ) -> Result<()> {
        let before = debug::before(dst)?;
        WebGpuStorage::copy2d(self, dst, d1, d2, src_s, dst_s, src_o, dst_o)?;
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

/// Custom ops have a `webgpu_fwd` to verify and a `cpu_fwd` to compare with.
impl WebGpuStorage {
    pub(crate) fn custom1(&self, op: &dyn CustomOp1, l: &Layout) -> Forward {
        Call::new(op.name(), &[("self", self, l)]).check(op.webgpu_fwd(self, l), |copies| {
            let (a, a_l) = &copies[0];
            Ok(op.cpu_fwd(a, a_l)?.0)
        })
    }

    pub(crate) fn custom2(
        &self,
        op: &dyn CustomOp2,
        l: &Layout,
        b: &Self,
        b_l: &Layout,
    ) -> Forward {
        Call::new(op.name(), &[("self", self, l), ("b", b, b_l)]).check(
            op.webgpu_fwd(self, l, b, b_l),
            |copies| {
                let ((a, a_l), (b, b_l)) = (&copies[0], &copies[1]);
                Ok(op.cpu_fwd(a, a_l, b, b_l)?.0)
            },
        )
    }

    pub(crate) fn custom3(
        &self,
        op: &dyn CustomOp3,
        l: &Layout,
        (b, b_l): (&Self, &Layout),
        (c, c_l): (&Self, &Layout),
    ) -> Forward {
        Call::new(
            op.name(),
            &[("self", self, l), ("b", b, b_l), ("c", c, c_l)],
        )
        .check(op.webgpu_fwd(self, l, b, b_l, c, c_l), |copies| {
            let ((a, a_l), (b, b_l), (c, c_l)) = (&copies[0], &copies[1], &copies[2]);
            Ok(op.cpu_fwd(a, a_l, b, b_l, c, c_l)?.0)
        })
    }
}

impl WebGpuStorage {
    /// A grouped convolution as one op; `None` if one convolution per group is faster. `moves` are padding, stride and dilation.
    pub(crate) fn grouped_conv(
        &self,
        l: &Layout,
        (k, k_l): (&Self, &Layout),
        groups: usize,
        moves: [usize; 3],
    ) -> Result<Option<Self>> {
        Call::new("grouped_conv", &[("self", self, l), ("k", k, k_l)])
            .with(&[("groups", &groups), ("moves", &moves)])
            .check(self.conv_grouped(l, (k, k_l), groups, moves), |copies| {
                reference::grouped_conv(copies, groups, moves)
            })
    }
}

/// Attention of queries, keys and values, each with its layout. The mask is added to the scores; it may have any shape that
/// broadcasts to (b, heads, queries, keys). If `causal`, the last query sees all keys, the one before it all but the last, and so
/// on, as on Metal. A query that sees no key gives NaN, as softmax does.
pub fn sdpa(
    qkv: [(&WebGpuStorage, &Layout); 3],
    mask: Option<&Tensor>,
    causal: bool,
    scale: f32,
    softcapping: f32,
) -> Forward {
    let how = Attention {
        causal,
        scale,
        softcapping,
    };
    let result = nn::sdpa(qkv, mask, how);
    let mask = mask.map(Tensor::storage_and_layout);
    let mask = mask.as_ref().and_then(|(storage, l)| match &**storage {
        Storage::WebGpu(storage) => Some(("mask", storage, *l)),
        _ => None,
    });
    let [(q, q_l), (k, k_l), (v, v_l)] = qkv;
    let operands = [("q", q, q_l), ("k", k, k_l), ("v", v, v_l)]
        .into_iter()
        .chain(mask);
    Call::new("sdpa", &operands.collect::<Vec<_>>())
        .with(&[
            ("causal", &causal),
            ("scale", &scale),
            ("softcapping", &softcapping),
        ])
        .check(result, |copies| reference::sdpa(copies, how))
}

impl QWebGpuStorage {
    /// The first `count` elements in f32.
    pub fn dequantize(&self, count: usize) -> Result<WebGpuStorage> {
        self.dequantize_to(DType::F32, count)
    }

    /// The first `count` elements in f16.
    pub fn dequantize_f16(&self, count: usize) -> Result<WebGpuStorage> {
        self.dequantize_to(DType::F16, count)
    }

    fn dequantize_to(&self, dtype: DType, count: usize) -> Result<WebGpuStorage> {
        Call::new("dequantize", &[])
            .with(&[("weights", &self.dtype()), ("count", &count)])
            .check(self.unpack(dtype, count), |_| {
                reference::dequantize(self, dtype, count)
            })
    }

    /// The rows that `ids` (u32) select, in f32.
    pub fn embedding(
        &self,
        rows: usize,
        hidden: usize,
        ids: &WebGpuStorage,
        ids_l: &Layout,
    ) -> Result<WebGpuStorage> {
        let dims = (rows, hidden);
        Call::new("embedding", &[("ids", ids, ids_l)])
            .with(&[("weights", &(self.dtype(), dims))])
            .check(self.select_rows(dims, ids, ids_l), |copies| {
                reference::embedding(self, dims, copies)
            })
    }

    /// `x` times the transpose of this matrix, in the dtype of `x` (f32, f16 or bf16), accumulated in f32.
    pub fn fwd(&self, shape: &Shape, x: &WebGpuStorage, l: &Layout) -> Forward {
        Call::new("qmatmul", &[("x", x, l)])
            .with(&[("weights", &(self.dtype(), shape))])
            .within(reference::ROUNDED)
            .check(self.matmul(shape, x, l), |copies| {
                reference::qmatmul(self, shape, copies)
            })
    }

    /// A mixture of experts: `y[t, e]` is `x[t, e]` times the transpose of matrix `ids[t, e]` of a stack.
    pub fn indexed_moe_forward(
        &self,
        shape: &Shape,
        x: &WebGpuStorage,
        l: &Layout,
        ids: &WebGpuStorage,
        ids_l: &Layout,
    ) -> Forward {
        Call::new("indexed_moe_forward", &[("x", x, l), ("ids", ids, ids_l)])
            .with(&[("weights", &(self.dtype(), shape))])
            .within(reference::ROUNDED)
            .check(self.matmul_experts(shape, (x, l), (ids, ids_l)), |copies| {
                reference::mixture(self, shape, copies)
            })
    }
}
