use candle_webgpu::{Value, View};

use super::{elem, WebGpuDevice};
use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Layout, Result, Shape};

/// Elements on a WebGPU device.
#[derive(Debug)]
pub struct WebGpuStorage {
    value: Value,
    device: WebGpuDevice,
    dtype: DType,
    count: usize,
}

/// Why an op has no row yet.
fn missing<T>(op: &'static str) -> Result<T> {
    Err(candle_webgpu::Error::UnsupportedOp { op }.into())
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

    /// Number of elements, whatever a layout shows of them.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What a layout shows of this storage.
    pub(crate) fn view<'a>(&'a self, op: &'static str, l: &'a Layout) -> Result<View<'a>> {
        Ok(View {
            value: &self.value,
            elem: elem(op, self.dtype)?,
            dims: l.dims(),
            strides: l.stride(),
            offset: l.start_offset(),
        })
    }

    /// A new storage of `count` elements.
    pub(crate) fn with(&self, value: Value, dtype: DType, count: usize) -> Self {
        Self::new(value, self.device.clone(), dtype, count)
    }

    /// A new storage of the shape that `l` shows.
    pub(crate) fn shaped(&self, value: Value, dtype: DType, l: &Layout) -> Self {
        self.with(value, dtype, l.shape().elem_count())
    }

    fn map(&self, op: &'static str, l: &Layout, scalars: [f64; 2]) -> Result<Self> {
        let value = self.device.runtime().map(op, self.view(op, l)?, scalars)?;
        Ok(self.shaped(value, self.dtype, l))
    }

    fn read<T: crate::WithDType>(&self) -> Result<Vec<T>> {
        let size = std::mem::size_of::<T>();
        let bytes = self
            .device
            .runtime()
            .read(&self.value, 0, (self.count * size) as u64)?;
        let mut out = Vec::with_capacity(self.count);
        // SAFETY: `bytes` has count * size bytes, and every bit pattern is a value of a Candle element type.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.as_mut_ptr() as *mut u8, bytes.len());
            out.set_len(self.count);
        }
        Ok(out)
    }
}

/// The bits of a scalar, low first.
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

impl BackendStorage for WebGpuStorage {
    type Device = WebGpuDevice;

    fn try_clone(&self, _: &Layout) -> Result<Self> {
        let all = Layout::contiguous(self.count);
        let value = self
            .device
            .runtime()
            .contiguous(self.view("clone", &all)?)?;
        Ok(self.with(value, self.dtype, self.count))
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &WebGpuDevice {
        &self.device
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        Ok(match self.dtype {
            DType::U8 => CpuStorage::U8(self.read()?),
            DType::U32 => CpuStorage::U32(self.read()?),
            DType::I16 => CpuStorage::I16(self.read()?),
            DType::I32 => CpuStorage::I32(self.read()?),
            DType::I64 => CpuStorage::I64(self.read()?),
            DType::BF16 => CpuStorage::BF16(self.read()?),
            DType::F16 => CpuStorage::F16(self.read()?),
            DType::F32 => CpuStorage::F32(self.read()?),
            DType::F64 => CpuStorage::F64(self.read()?),
            DType::F8E4M3 => CpuStorage::F8E4M3(self.read()?),
            dtype @ (DType::F6E2M3 | DType::F6E3M2 | DType::F4 | DType::F8E8M0) => {
                return Err(crate::Error::UnsupportedDTypeForOp(dtype, "readback").bt())
            }
        })
    }

    fn affine(&self, l: &Layout, mul: f64, add: f64) -> Result<Self> {
        self.map("affine", l, [mul, add])
    }

    fn powf(&self, l: &Layout, exponent: f64) -> Result<Self> {
        self.map("powf", l, [exponent, 0.])
    }

    fn elu(&self, l: &Layout, alpha: f64) -> Result<Self> {
        self.map("elu", l, [alpha, 0.])
    }

    fn reduce_op(&self, op: ReduceOp, l: &Layout, dims: &[usize]) -> Result<Self> {
        let name = match op {
            ReduceOp::Sum => "sum",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::ArgMin => "argmin",
            ReduceOp::ArgMax => "argmax",
        };
        let dtype = match op {
            ReduceOp::ArgMin | ReduceOp::ArgMax => DType::U32,
            ReduceOp::Sum | ReduceOp::Min | ReduceOp::Max => self.dtype,
        };
        let value = self
            .device
            .runtime()
            .fold(name, self.view(name, l)?, dims)?;
        let kept = l.dims().iter().enumerate();
        let count = kept.filter(|(d, _)| !dims.contains(d)).map(|(_, n)| n).product();
        Ok(self.with(value, dtype, count))
    }

    fn cmp(&self, op: CmpOp, rhs: &Self, l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let name = match op {
            CmpOp::Eq => "eq",
            CmpOp::Ne => "ne",
            CmpOp::Le => "le",
            CmpOp::Ge => "ge",
            CmpOp::Lt => "lt",
            CmpOp::Gt => "gt",
        };
        let (a, b) = (self.view(name, l)?, rhs.view(name, rhs_l)?);
        let value = self.device.runtime().zip(name, a, b)?;
        Ok(self.shaped(value, DType::U8, l))
    }

    fn to_dtype(&self, l: &Layout, dtype: DType) -> Result<Self> {
        let to = elem("to_dtype", dtype)?;
        let value = self
            .device
            .runtime()
            .cast(self.view("to_dtype", l)?, to)?;
        Ok(self.shaped(value, dtype, l))
    }

    fn unary_impl<B: UnaryOpT>(&self, l: &Layout) -> Result<Self> {
        self.map(B::KERNEL, l, [0.; 2])
    }

    fn binary_impl<B: BinaryOpT>(&self, rhs: &Self, l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let (a, b) = (self.view(B::KERNEL, l)?, rhs.view(B::KERNEL, rhs_l)?);
        let value = self.device.runtime().zip(B::KERNEL, a, b)?;
        Ok(self.shaped(value, self.dtype, l))
    }

    fn where_cond(&self, l: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) -> Result<Self> {
        const OP: &str = "where_cond";
        let (t_view, f_view) = (t.view(OP, t_l)?, f.view(OP, f_l)?);
        let value = self
            .device
            .runtime()
            .pick(self.view(OP, l)?, t_view, f_view)?;
        Ok(self.shaped(value, t.dtype, l))
    }

    fn conv1d(&self, _: &Layout, _: &Self, _: &Layout, _: &ParamsConv1D) -> Result<Self> {
        missing("conv1d")
    }

    fn conv_transpose1d(
        &self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &ParamsConvTranspose1D,
    ) -> Result<Self> {
        missing("conv_transpose1d")
    }

    fn conv2d(&self, _: &Layout, _: &Self, _: &Layout, _: &ParamsConv2D) -> Result<Self> {
        missing("conv2d")
    }

    fn conv_transpose2d(
        &self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &ParamsConvTranspose2D,
    ) -> Result<Self> {
        missing("conv_transpose2d")
    }

    fn avg_pool2d(&self, _: &Layout, _: (usize, usize), _: (usize, usize)) -> Result<Self> {
        missing("avg_pool2d")
    }

    fn max_pool2d(&self, _: &Layout, _: (usize, usize), _: (usize, usize)) -> Result<Self> {
        missing("max_pool2d")
    }

    fn upsample_nearest1d(&self, _: &Layout, _: usize) -> Result<Self> {
        missing("upsample_nearest1d")
    }

    fn upsample_nearest2d(&self, _: &Layout, _: usize, _: usize) -> Result<Self> {
        missing("upsample_nearest2d")
    }

    fn upsample_bilinear2d(
        &self,
        _: &Layout,
        _: usize,
        _: usize,
        _: bool,
        _: Option<f64>,
        _: Option<f64>,
    ) -> Result<Self> {
        missing("upsample_bilinear2d")
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
        // The destination is contiguous in the order of the source's dims.
        let shape: Shape = l.dims().into();
        let dst_l = Layout::contiguous_with_offset(&shape, dst_offset);
        Ok(self
            .device
            .runtime()
            .copy_into(self.view("copy", l)?, dst.view("copy", &dst_l)?)?)
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
        let rows = |stride, offset| Layout::new((d1, d2).into(), vec![stride, 1], offset);
        let (src_l, dst_l) = (rows(src_stride, src_offset), rows(dst_stride, dst_offset));
        Ok(self
            .device
            .runtime()
            .copy_into(self.view("copy", &src_l)?, dst.view("copy", &dst_l)?)?)
    }

    fn const_set(&mut self, v: Scalar, l: &Layout) -> Result<()> {
        let runtime = self.device.runtime();
        let (e, all) = (elem("const_set", self.dtype)?, l.shape().elem_count());
        if all == self.count && l.is_contiguous() && l.start_offset() == 0 {
            return Ok(runtime.fill_in(&self.value, all, e, bits(v))?);
        }
        // One element, repeated over the view by strides of 0.
        let one = runtime.fill(1, e, bits(v))?;
        let repeat = vec![0; l.dims().len()];
        let source = View {
            value: &one,
            elem: e,
            dims: l.dims(),
            strides: &repeat,
            offset: 0,
        };
        Ok(runtime.copy_into(source, self.view("const_set", l)?)?)
    }
}
