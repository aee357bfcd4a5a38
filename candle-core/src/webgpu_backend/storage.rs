//! `BackendStorage` for WebGPU.

use std::future::Future;

use candle_webgpu::kernel::conv::ConvParams;
use candle_webgpu::kernel::pool::upsample::Corners;
use candle_webgpu::{DType as WebGpuDType, Value, View};

use super::debug;
use super::{bits_dtype, webgpu_dtype, WebGpuDevice};
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Error, Layout, Result, Shape};

/// Elements on a WebGPU device.
#[derive(Debug)]
pub struct WebGpuStorage {
    value: Value,
    device: WebGpuDevice,
    dtype: DType,
    count: usize,
}

impl WebGpuStorage {
    pub(crate) fn new(value: Value, device: WebGpuDevice, dtype: DType, count: usize) -> Self {
        Self {
            value,
            device,
            dtype,
            count,
        }
    }

    /// The number of elements in the whole storage.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The layout of the whole storage.
    pub(super) fn layout(&self) -> Layout {
        Layout::contiguous(self.count)
    }

    /// A view of the elements that a layout selects; an error if the layout exceeds the storage.
    pub(crate) fn view<'a>(&'a self, op: &'static str, l: &'a Layout) -> Result<View<'a>> {
        self.view_as(op, webgpu_dtype(op, self.dtype)?, l, l.dims())
    }

    /// [`Self::view`] for ops that only move elements. Dtypes without arithmetic are viewed as bytes.
    fn moved<'a>(&'a self, op: &'static str, l: &'a Layout) -> Result<View<'a>> {
        self.view_as(op, bits_dtype(op, self.dtype)?, l, l.dims())
    }

    fn view_as<'a>(
        &'a self,
        op: &'static str,
        gpu_dtype: WebGpuDType,
        l: &'a Layout,
        dims: &'a [usize],
    ) -> Result<View<'a>> {
        let layout = (dims, l.stride(), l.start_offset());
        Ok(View::new(op, &self.value, gpu_dtype, layout)?)
    }

    /// A grouped convolution as one op, with a kernel (c_out, c_in / groups, ...). `None` if one convolution per group is faster.
    /// `moves` are padding, stride and dilation.
    pub(crate) fn grouped_conv(
        &self,
        l: &Layout,
        (k, k_l): (&Self, &Layout),
        groups: usize,
        moves: [usize; 3],
    ) -> Result<Option<Self>> {
        let [padding, stride, dilation] = moves;
        let op = if l.dims().len() == 3 {
            "conv1d"
        } else {
            "conv2d"
        };
        let (x, w) = (self.view(op, l)?, k.view(op, k_l)?);
        let window = window(stride, padding, dilation, 0);
        let runtime = self.device.runtime();
        let value = runtime.conv_grouped(x, w, window, groups)?;
        let y = value.map(|value| self.all_of(value));
        debug::grouped_conv((self, l), (k, k_l), groups, moves, y.as_ref())?;
        Ok(y)
    }

    /// A new storage of `count` elements.
    pub(crate) fn with(&self, value: Value, dtype: DType, count: usize) -> Self {
        Self::new(value, self.device.clone(), dtype, count)
    }

    /// A new storage with the shape of `l`.
    pub(crate) fn shaped(&self, value: Value, dtype: DType, l: &Layout) -> Self {
        self.with(value, dtype, l.shape().elem_count())
    }

    /// A new storage of the same dtype that holds all of `value`.
    fn all_of(&self, value: Value) -> Self {
        let count = value.bytes() as usize / self.dtype.size_in_bytes();
        self.with(value, self.dtype, count)
    }

    fn unary_op(&self, op: &'static str, l: &Layout, scalars: [f64; 2]) -> Result<Self> {
        let value = self
            .device
            .runtime()
            .unary(op, self.view(op, l)?, scalars)?;
        Ok(self.shaped(value, self.dtype, l))
    }

    /// Starts to read back the elements of a contiguous layout; the future resolves to CPU storage.
    pub(crate) fn read_async(
        &self,
        l: &Layout,
    ) -> Result<impl Future<Output = Result<CpuStorage>> + use<>> {
        let (dtype, size) = (self.dtype, stored(self.dtype));
        let (start, count) = match (bits_dtype("readback", dtype)?, dtype) {
            // Some of these dtypes are narrower than a byte, so the whole storage is read.
            (WebGpuDType::U8, dtype) if dtype != DType::U8 && l.start_offset() == 0 => {
                (0, self.count)
            }
            _ => (l.start_offset(), l.shape().elem_count()),
        };
        let (from, bytes) = ((start * size) as u64, (count * size) as u64);
        let reading = self.device.runtime().read_async(&self.value, from, bytes)?;
        Ok(async move { Ok(cpu_storage(dtype, &reading.bytes().await?)) })
    }
}

/// Bytes per element of CPU storage, which holds bytes for dtypes narrower than a byte.
fn stored(dtype: DType) -> usize {
    match dtype {
        DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0 => 1,
        dtype => dtype.size_in_bytes(),
    }
}

/// Reinterprets bytes from the device.
fn numbers<T: crate::WithDType>(bytes: &[u8]) -> Vec<T> {
    let count = bytes.len() / std::mem::size_of::<T>();
    let mut out = Vec::with_capacity(count);
    // SAFETY: `out` has the capacity for `count` elements, `bytes` holds at least as many, and every bit pattern is a valid
    // value of a Candle element type.
    unsafe {
        let size = count * std::mem::size_of::<T>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.as_mut_ptr() as *mut u8, size);
        out.set_len(count);
    }
    out
}

fn cpu_storage(dtype: DType, bytes: &[u8]) -> CpuStorage {
    match dtype {
        DType::U8 => CpuStorage::U8(numbers(bytes)),
        DType::U32 => CpuStorage::U32(numbers(bytes)),
        DType::I16 => CpuStorage::I16(numbers(bytes)),
        DType::I32 => CpuStorage::I32(numbers(bytes)),
        DType::I64 => CpuStorage::I64(numbers(bytes)),
        DType::BF16 => CpuStorage::BF16(numbers(bytes)),
        DType::F16 => CpuStorage::F16(numbers(bytes)),
        DType::F32 => CpuStorage::F32(numbers(bytes)),
        DType::F64 => CpuStorage::F64(numbers(bytes)),
        DType::F8E4M3 => CpuStorage::F8E4M3(numbers(bytes)),
        DType::F6E2M3 => CpuStorage::F6E2M3(bytes.to_vec()),
        DType::F6E3M2 => CpuStorage::F6E3M2(bytes.to_vec()),
        DType::F4 => CpuStorage::F4(bytes.to_vec()),
        DType::F8E8M0 => CpuStorage::F8E8M0(bytes.to_vec()),
    }
}

fn window(stride: usize, padding: usize, dilation: usize, output_padding: usize) -> ConvParams {
    ConvParams {
        stride,
        padding,
        dilation,
        output_padding,
    }
}

/// Rejects writes to a view whose elements may share memory.
fn in_place(op: &'static str, l: &Layout) -> Result<()> {
    match l.is_contiguous() {
        true => Ok(()),
        false => Err(Error::RequiresContiguous { op }.bt()),
    }
}

/// The bits of a scalar, in the low bits of the result.
fn bits(v: Scalar) -> u64 {
    match v {
        Scalar::U8(v) => v.into(),
        Scalar::U32(v) => v.into(),
        Scalar::I16(v) => (v as u16).into(),
        Scalar::I32(v) => (v as u32).into(),
        Scalar::I64(v) => v as u64,
        Scalar::BF16(v) => v.to_bits().into(),
        Scalar::F16(v) => v.to_bits().into(),
        Scalar::F32(v) => v.to_bits().into(),
        Scalar::F64(v) => v.to_bits(),
        Scalar::F8E4M3(v) => v.to_bits().into(),
    }
}

pub(super) fn cmp_name(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "eq",
        CmpOp::Ne => "ne",
        CmpOp::Le => "le",
        CmpOp::Ge => "ge",
        CmpOp::Lt => "lt",
        CmpOp::Gt => "gt",
    }
}

impl BackendStorage for WebGpuStorage {
    type Device = WebGpuDevice;

    fn try_clone(&self, _: &Layout) -> Result<Self> {
        let all = self.layout();
        let value = self.moved("clone", &all)?;
        let value = self.device.runtime().contiguous(value)?;
        Ok(self.with(value, self.dtype, self.count))
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &WebGpuDevice {
        &self.device
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        let bytes = (self.count * stored(self.dtype)) as u64;
        let bytes = self.device.runtime().read(&self.value, 0, bytes)?;
        Ok(cpu_storage(self.dtype, &bytes))
    }

    fn affine(&self, l: &Layout, mul: f64, add: f64) -> Result<Self> {
        self.unary_op("affine", l, [mul, add])
    }

    fn powf(&self, l: &Layout, exponent: f64) -> Result<Self> {
        self.unary_op("powf", l, [exponent, 0.])
    }

    fn elu(&self, l: &Layout, alpha: f64) -> Result<Self> {
        self.unary_op("elu", l, [alpha, 0.])
    }

    fn reduce_op(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Result<Self> {
        let name = op.name();
        let dtype = match op {
            ReduceOp::ArgMin | ReduceOp::ArgMax => DType::U32,
            ReduceOp::Sum | ReduceOp::Min | ReduceOp::Max => self.dtype,
        };
        let value = self
            .device
            .runtime()
            .reduce(name, self.view(name, l)?, dims)?;
        let kept = l.dims().iter().enumerate();
        let count = kept
            .filter(|(d, _)| !dims.contains(d))
            .map(|(_, n)| n)
            .product();
        Ok(self.with(value, dtype, count))
    }

    fn cmp(&self, op: CmpOp, rhs: &Self, l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let name = cmp_name(op);
        let (a, b) = (self.view(name, l)?, rhs.view(name, rhs_l)?);
        let value = self.device.runtime().binary(name, a, b)?;
        Ok(self.shaped(value, DType::U8, l))
    }

    fn to_dtype(&self, l: &Layout, dtype: DType) -> Result<Self> {
        let to = webgpu_dtype("to_dtype", dtype)?;
        let value = self.device.runtime().cast(self.view("to_dtype", l)?, to)?;
        Ok(self.shaped(value, dtype, l))
    }

    fn unary_impl<B: UnaryOpT>(&self, l: &Layout) -> Result<Self> {
        self.unary_op(B::KERNEL, l, [0.; 2])
    }

    fn binary_impl<B: BinaryOpT>(&self, rhs: &Self, l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let (a, b) = (self.view(B::KERNEL, l)?, rhs.view(B::KERNEL, rhs_l)?);
        let value = self.device.runtime().binary(B::KERNEL, a, b)?;
        Ok(self.shaped(value, self.dtype, l))
    }

    fn where_cond(
        &self,
        l: &Layout,
        t: &Self,
        t_l: &Layout,
        f: &Self,
        f_l: &Layout,
    ) -> Result<Self> {
        const OP: &str = "where_cond";
        let (t_view, f_view) = (t.view(OP, t_l)?, f.view(OP, f_l)?);
        let value = self
            .device
            .runtime()
            .where_cond(self.view(OP, l)?, t_view, f_view)?;
        Ok(self.shaped(value, t.dtype, l))
    }

    fn conv1d(&self, l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv1D) -> Result<Self> {
        const OP: &str = "conv1d";
        let x = self.view(OP, l)?;
        // `dims` leaves out channels that do not divide evenly into the groups, as the CPU does.
        let dims = [p.c_out, p.c_in, p.k_size];
        let w = k.view_as(OP, webgpu_dtype(OP, k.dtype)?, k_l, &dims)?;
        let window = window(p.stride, p.padding, p.dilation, 0);
        Ok(self.all_of(self.device.runtime().conv(x, w, window)?))
    }

    fn conv_transpose1d(
        &self,
        l: &Layout,
        k: &Self,
        k_l: &Layout,
        p: &ParamsConvTranspose1D,
    ) -> Result<Self> {
        const OP: &str = "conv_transpose1d";
        let (x, w) = (self.view(OP, l)?, k.view(OP, k_l)?);
        let window = window(p.stride, p.padding, p.dilation, p.output_padding);
        let value = self.device.runtime().conv_transpose(x, w, window)?;
        Ok(self.all_of(value))
    }

    fn conv2d(&self, l: &Layout, k: &Self, k_l: &Layout, p: &ParamsConv2D) -> Result<Self> {
        const OP: &str = "conv2d";
        let x = self.view(OP, l)?;
        let dims = [p.c_out, p.c_in, p.k_h, p.k_w];
        let w = k.view_as(OP, webgpu_dtype(OP, k.dtype)?, k_l, &dims)?;
        let window = window(p.stride, p.padding, p.dilation, 0);
        Ok(self.all_of(self.device.runtime().conv(x, w, window)?))
    }

    fn conv_transpose2d(
        &self,
        l: &Layout,
        k: &Self,
        k_l: &Layout,
        p: &ParamsConvTranspose2D,
    ) -> Result<Self> {
        const OP: &str = "conv_transpose2d";
        let (x, w) = (self.view(OP, l)?, k.view(OP, k_l)?);
        let window = window(p.stride, p.padding, p.dilation, p.output_padding);
        let value = self.device.runtime().conv_transpose(x, w, window)?;
        Ok(self.all_of(value))
    }

    fn avg_pool2d(&self, l: &Layout, k: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        let x = self.view("avg_pool2d", l)?;
        let runtime = self.device.runtime();
        Ok(self.all_of(runtime.avg_pool2d(x, k.into(), stride.into())?))
    }

    fn max_pool2d(&self, l: &Layout, k: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        let x = self.view("max_pool2d", l)?;
        let runtime = self.device.runtime();
        Ok(self.all_of(runtime.max_pool2d(x, k.into(), stride.into())?))
    }

    fn upsample_nearest1d(&self, l: &Layout, size: usize) -> Result<Self> {
        let x = self.view("upsample_nearest1d", l)?;
        Ok(self.all_of(self.device.runtime().upsample_nearest1d(x, size)?))
    }

    fn upsample_nearest2d(&self, l: &Layout, h: usize, w: usize) -> Result<Self> {
        let x = self.view("upsample_nearest2d", l)?;
        Ok(self.all_of(self.device.runtime().upsample_nearest2d(x, [h, w])?))
    }

    fn upsample_bilinear2d(
        &self,
        l: &Layout,
        h: usize,
        w: usize,
        align_corners: bool,
        scale_h: Option<f64>,
        scale_w: Option<f64>,
    ) -> Result<Self> {
        let x = self.view("upsample_bilinear2d", l)?;
        let corners = if align_corners {
            Corners::Aligned
        } else {
            Corners::Areas([scale_h, scale_w])
        };
        let runtime = self.device.runtime();
        Ok(self.all_of(runtime.upsample_bilinear2d(x, [h, w], corners)?))
    }

    fn gather(&self, l: &Layout, ids: &Self, ids_l: &Layout, dim: usize) -> Result<Self> {
        const OP: &str = "gather";
        let (x, ids) = (self.view(OP, l)?, ids.view(OP, ids_l)?);
        let value = self.device.runtime().gather(x, ids, dim)?;
        Ok(self.shaped(value, self.dtype, ids_l))
    }

    fn scatter_set(
        &mut self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        const OP: &str = "scatter";
        in_place(OP, l)?;
        let (ids, src) = (ids.view(OP, ids_l)?, src.view(OP, src_l)?);
        Ok(self
            .device
            .runtime()
            .scatter_set(self.view(OP, l)?, ids, src, dim)?)
    }

    fn scatter_add_set(
        &mut self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        const OP: &str = "scatter_add";
        in_place(OP, l)?;
        let (ids, src) = (ids.view(OP, ids_l)?, src.view(OP, src_l)?);
        Ok(self
            .device
            .runtime()
            .scatter_add(self.view(OP, l)?, ids, src, dim)?)
    }

    fn index_select(&self, ids: &Self, l: &Layout, ids_l: &Layout, dim: usize) -> Result<Self> {
        const OP: &str = "index_select";
        let (x, ids_view) = (self.view(OP, l)?, ids.view(OP, ids_l)?);
        let value = self.device.runtime().index_select(x, ids_view, dim)?;
        let dims = l.dims();
        let around: usize = dims[..dim].iter().chain(&dims[dim + 1..]).product();
        Ok(self.with(value, self.dtype, around * ids_l.shape().elem_count()))
    }

    fn index_add(
        &self,
        l: &Layout,
        ids: &Self,
        ids_l: &Layout,
        src: &Self,
        src_l: &Layout,
        dim: usize,
    ) -> Result<Self> {
        const OP: &str = "index_add";
        let (ids, src) = (ids.view(OP, ids_l)?, src.view(OP, src_l)?);
        let value = self
            .device
            .runtime()
            .index_add(self.view(OP, l)?, ids, src, dim)?;
        Ok(self.shaped(value, self.dtype, l))
    }

    fn matmul(
        &self,
        rhs: &Self,
        bmnk: (usize, usize, usize, usize),
        l: &Layout,
        rhs_l: &Layout,
    ) -> Result<Self> {
        const OP: &str = "matmul";
        let (a, b) = (self.view(OP, l)?, rhs.view(OP, rhs_l)?);
        let value = self.device.runtime().matmul(a, b, bmnk)?;
        let (b, m, n, _) = bmnk;
        Ok(self.with(value, self.dtype, b * m * n))
    }

    fn copy_strided_src(&self, dst: &mut Self, dst_offset: usize, l: &Layout) -> Result<()> {
        // The trait's destination is contiguous, with the dims of the source.
        let shape: Shape = l.dims().into();
        let dst_l = Layout::contiguous_with_offset(&shape, dst_offset);
        Ok(self
            .device
            .runtime()
            .copy_into(self.moved("copy", l)?, dst.moved("copy", &dst_l)?)?)
    }

    fn copy2d(
        &self,
        dst: &mut Self,
        d1: usize,
        d2: usize,
        src_stride: usize,
        dst_stride: usize,
        src_offset: usize,
        dst_offset: usize,
    ) -> Result<()> {
        let (dims, x, y) = ([d1, d2], [src_stride, 1], [dst_stride, 1]);
        let [e, into] = [self.dtype, dst.dtype].map(|dtype| bits_dtype("copy", dtype));
        let x = View::new("copy", &self.value, e?, (&dims, &x, src_offset))?;
        let y = View::new("copy", &dst.value, into?, (&dims, &y, dst_offset))?;
        Ok(self.device.runtime().copy_into(x, y)?)
    }

    fn const_set(&mut self, v: Scalar, l: &Layout) -> Result<()> {
        let runtime = self.device.runtime();
        let (e, all) = (
            webgpu_dtype("const_set", self.dtype)?,
            l.shape().elem_count(),
        );
        if all == self.count && l.is_contiguous() && l.start_offset() == 0 {
            return Ok(runtime.fill_in(&self.value, all, e, bits(v))?);
        }
        // Broadcasts one element over the view with strides of 0.
        let one = runtime.fill(1, e, bits(v))?;
        let repeat = vec![0; l.dims().len()];
        let source = View::new("const_set", &one, e, (l.dims(), &repeat, 0))?;
        Ok(runtime.copy_into(source, self.view("const_set", l)?)?)
    }
}
