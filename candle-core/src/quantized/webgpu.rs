//! Quantized tensors on a WebGPU device. Kernels dequantize blocks as they read them. The CPU quantizes, so quantizing a device
//! tensor reads it back.

mod readback;

use std::io::Read;

use candle_webgpu::kernel::matmul::quantized::Blocks;
use candle_webgpu::{DType as WebGpuDType, Quant, Value, View};

use super::{GgmlDType, GgmlType, QStorage};
use crate::backend::BackendStorage;
use crate::webgpu_backend::debug;
use crate::webgpu_backend::webgpu_dtype;
use crate::{
    CpuStorage, DType, Device, Layout, Result, Shape, Storage, WebGpuDevice, WebGpuStorage,
};

/// How a dtype is stored on the device.
#[derive(Clone, Copy)]
enum Form {
    Dense(WebGpuDType),
    Blocks(Quant),
}

fn form(dtype: GgmlDType) -> Form {
    match dtype {
        GgmlDType::F32 => Form::Dense(WebGpuDType::F32),
        GgmlDType::F16 => Form::Dense(WebGpuDType::F16),
        GgmlDType::BF16 => Form::Dense(WebGpuDType::Bf16),
        GgmlDType::Q4_0 => Form::Blocks(Quant::Q4_0),
        GgmlDType::Q4_1 => Form::Blocks(Quant::Q4_1),
        GgmlDType::Q5_0 => Form::Blocks(Quant::Q5_0),
        GgmlDType::Q5_1 => Form::Blocks(Quant::Q5_1),
        GgmlDType::Q8_0 => Form::Blocks(Quant::Q8_0),
        GgmlDType::Q8_1 => Form::Blocks(Quant::Q8_1),
        GgmlDType::Q2K => Form::Blocks(Quant::Q2K),
        GgmlDType::Q3K => Form::Blocks(Quant::Q3K),
        GgmlDType::Q4K => Form::Blocks(Quant::Q4K),
        GgmlDType::Q5K => Form::Blocks(Quant::Q5K),
        GgmlDType::Q6K => Form::Blocks(Quant::Q6K),
        GgmlDType::Q8K => Form::Blocks(Quant::Q8K),
    }
}

/// The dtypes that can be quantized with an importance matrix.
const WEIGHED: [GgmlDType; 5] = [
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

pub struct QWebGpuStorage {
    value: Value,
    device: WebGpuDevice,
    dtype: GgmlDType,
    /// Size in the file format.
    bytes: usize,
}

/// A storage of `count` zeros.
pub(super) fn zeros(device: &WebGpuDevice, count: usize, dtype: GgmlDType) -> Result<QStorage> {
    let blocks = count.div_ceil(dtype.block_size());
    let bytes = blocks.saturating_mul(dtype.type_size());
    let on_device = match form(dtype) {
        Form::Dense(_) => bytes,
        Form::Blocks(quant) => quant.info().device_bytes(blocks),
    };
    Ok(QStorage::WebGpu(QWebGpuStorage {
        value: device.runtime().fill(on_device, WebGpuDType::U8, 0)?,
        device: device.clone(),
        dtype,
        bytes,
    }))
}

/// Uploads blocks in the file format.
pub(super) fn load(device: &WebGpuDevice, bytes: &[u8], dtype: GgmlDType) -> Result<QStorage> {
    read(device, &mut &*bytes, bytes.len(), dtype)
}

/// Uploads `bytes` bytes of blocks in the file format in chunks, as they are read.
pub(super) fn read(
    device: &WebGpuDevice,
    from: &mut impl Read,
    bytes: usize,
    dtype: GgmlDType,
) -> Result<QStorage> {
    let storage = QWebGpuStorage::read(device, from, bytes, dtype)?;
    Ok(QStorage::WebGpu(storage))
}

pub fn load_quantized<T: GgmlType + Send + Sync + 'static>(
    device: &WebGpuDevice,
    data: &[T],
) -> Result<QStorage> {
    // SAFETY: blocks are plain data without padding.
    let bytes = unsafe {
        std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), std::mem::size_of_val(data))
    };
    load(device, bytes, T::DTYPE)
}

impl QWebGpuStorage {
    fn read(
        device: &WebGpuDevice,
        from: &mut impl Read,
        bytes: usize,
        dtype: GgmlDType,
    ) -> Result<Self> {
        if !bytes.is_multiple_of(dtype.type_size()) {
            crate::bail!(
                "{bytes} bytes are not a whole number of {dtype:?} blocks, of {} bytes each",
                dtype.type_size()
            )
        }
        let quant = match form(dtype) {
            Form::Dense(_) => None,
            Form::Blocks(quant) => Some(quant),
        };
        let read = |chunk: &mut [u8]| Result::Ok(from.read_exact(chunk)?);
        Ok(Self {
            value: device.runtime().upload_from(quant, bytes, read)?,
            device: device.clone(),
            dtype,
            bytes,
        })
    }

    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    pub fn device(&self) -> &WebGpuDevice {
        &self.device
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        self.bytes / self.dtype.type_size() * self.dtype.block_size()
    }

    fn blocks(&self, quant: Quant) -> Blocks<'_> {
        Blocks {
            value: &self.value,
            quant,
        }
    }

    fn dense<'a>(
        &'a self,
        op: &'static str,
        gpu_dtype: WebGpuDType,
        dims: &'a [usize],
        strides: &'a [usize],
    ) -> Result<View<'a>> {
        Ok(View::new(op, &self.value, gpu_dtype, (dims, strides, 0))?)
    }

    fn check(&self, op: &str, count: usize) -> Result<()> {
        if count > self.count() {
            crate::bail!("{op}: {count} elements requested, {} present", self.count())
        }
        Ok(())
    }

    /// The first `count` elements in f32.
    pub fn dequantize(&self, count: usize) -> Result<WebGpuStorage> {
        self.dequantize_to(DType::F32, count)
    }

    /// The first `count` elements in f16.
    pub fn dequantize_f16(&self, count: usize) -> Result<WebGpuStorage> {
        self.dequantize_to(DType::F16, count)
    }

    fn dequantize_to(&self, dtype: DType, count: usize) -> Result<WebGpuStorage> {
        const OP: &str = "dequantize";
        self.check(OP, count)?;
        let (runtime, to) = (self.device.runtime(), webgpu_dtype(OP, dtype)?);
        let value = match form(self.dtype) {
            Form::Dense(gpu_dtype) => {
                runtime.cast(self.dense(OP, gpu_dtype, &[count], &[1])?, to)?
            }
            Form::Blocks(quant) => runtime.dequantize(self.blocks(quant), count, to)?,
        };
        let y = WebGpuStorage::new(value, self.device.clone(), dtype, count);
        debug::dequantize(self, dtype, &y)?;
        Ok(y)
    }

    /// Quantizes on the CPU and uploads the blocks.
    fn fill(&mut self, quantize: impl FnOnce(&mut QStorage) -> Result<()>) -> Result<()> {
        let mut blocks = Device::Cpu.qzeros(self.count(), self.dtype)?;
        quantize(&mut blocks)?;
        let data = blocks.data()?;
        *self = Self::read(&self.device, &mut &*data, data.len(), self.dtype)?;
        Ok(())
    }

    /// Waits for the device, since it reads `src` back.
    pub fn quantize(&mut self, src: &WebGpuStorage) -> Result<()> {
        self.quantize_onto(&src.to_cpu_storage()?)
    }

    /// Waits for the device, since it reads `src` back.
    pub fn quantize_imatrix(
        &mut self,
        src: &WebGpuStorage,
        weights: &[f32],
        row: usize,
    ) -> Result<()> {
        self.quantize_imatrix_onto(&src.to_cpu_storage()?, weights, row)
    }

    pub fn quantize_onto(&mut self, src: &CpuStorage) -> Result<()> {
        let src = Storage::Cpu(src.clone());
        self.fill(|blocks| blocks.quantize(&src))
    }

    pub fn quantize_imatrix_onto(
        &mut self,
        src: &CpuStorage,
        weights: &[f32],
        row: usize,
    ) -> Result<()> {
        if !WEIGHED.contains(&self.dtype) {
            crate::bail!(
                "no importance matrix for {:?}: only for {WEIGHED:?}",
                self.dtype
            )
        }
        let src = Storage::Cpu(src.clone());
        self.fill(|blocks| blocks.quantize_imatrix(&src, weights, row))
    }

    /// Size in the file format.
    pub fn storage_size_in_bytes(&self) -> usize {
        self.bytes
    }

    /// The rows that `ids` (u32) select, in f32.
    pub fn embedding(
        &self,
        rows: usize,
        hidden: usize,
        ids: &WebGpuStorage,
        ids_l: &Layout,
    ) -> Result<WebGpuStorage> {
        const OP: &str = "embedding";
        self.check(OP, rows.saturating_mul(hidden))?;
        let runtime = self.device.runtime();
        let view = ids.view(OP, ids_l)?;
        let count = view.count().saturating_mul(hidden);
        let value = match form(self.dtype) {
            Form::Dense(gpu_dtype) => {
                let (dims, strides) = ([rows, hidden], [hidden, 1]);
                let table = self.dense(OP, gpu_dtype, &dims, &strides)?;
                let value = runtime.index_select(table, view, 0)?;
                let all = [count];
                let picked = View::new(OP, &value, gpu_dtype, (&all, &[1], 0))?;
                runtime.cast(picked, WebGpuDType::F32)?
            }
            Form::Blocks(quant) => runtime.dequantize_rows(
                self.blocks(quant),
                (rows, hidden),
                view,
                WebGpuDType::F32,
            )?,
        };
        let y = ids.with(value, DType::F32, count);
        debug::embedding(self, (rows, hidden), (ids, ids_l), &y)?;
        Ok(y)
    }

    /// `x` times the transpose of this matrix, in the dtype of `x` (f32, f16 or bf16), accumulated in f32.
    pub fn fwd(
        &self,
        shape: &Shape,
        x: &WebGpuStorage,
        l: &Layout,
    ) -> Result<(WebGpuStorage, Shape)> {
        const OP: &str = "qmatmul";
        let (n, k) = shape.dims2()?;
        self.check(OP, n.saturating_mul(k))?;
        let dims = l.dims();
        if dims.len() < 2 || !dims.ends_with(&[k]) {
            crate::bail!("{OP}: {l:?} does not fit a matrix ({n}, {k})")
        }
        let view = x.view(OP, l)?;
        let mut out = dims.to_vec();
        out[dims.len() - 1] = n;
        let out = Shape::from(out);
        let value = match form(self.dtype) {
            Form::Dense(gpu_dtype) => self.dense_matmul(gpu_dtype, view, (n, k))?,
            Form::Blocks(quant) => {
                let runtime = self.device.runtime();
                runtime.matmul_blocks(view, self.blocks(quant), (n, k))?
            }
        };
        let y = x.with(value, x.dtype(), out.elem_count());
        debug::qmatmul(self, shape, (x, l), &y)?;
        Ok((y, out))
    }

    /// A matmul with a matrix that is not quantized. If the dtypes differ, both operands are cast to f32.
    fn dense_matmul(
        &self,
        gpu_dtype: WebGpuDType,
        x: View<'_>,
        (n, k): (usize, usize),
    ) -> Result<Value> {
        const OP: &str = "qmatmul";
        let runtime = self.device.runtime();
        let outer = x.dims().len() - 2;
        let m = x.dims()[outer];
        let batch = x.dims()[..outer].iter().product();
        let mut dims = x.dims().to_vec();
        dims[outer] = k;
        dims[outer + 1] = n;
        let mut strides = vec![0; dims.len()];
        strides[outer] = 1;
        strides[outer + 1] = k;
        if x.dtype() == gpu_dtype {
            let weights = self.dense(OP, gpu_dtype, &dims, &strides)?;
            return Ok(runtime.matmul(x, weights, (batch, m, n, k))?);
        }
        let weights = runtime.cast(self.dense(OP, gpu_dtype, &[n * k], &[1])?, WebGpuDType::F32)?;
        let right = View::new(OP, &weights, WebGpuDType::F32, (&dims, &strides, 0))?;
        let x_f32 = runtime.cast(x, WebGpuDType::F32)?;
        let x_strides = Shape::from(x.dims()).stride_contiguous();
        let left = View::new(OP, &x_f32, WebGpuDType::F32, (x.dims(), &x_strides, 0))?;
        let y = runtime.matmul(left, right, (batch, m, n, k))?;
        let all = [batch * m * n];
        let y = View::new(OP, &y, WebGpuDType::F32, (&all, &[1], 0))?;
        Ok(runtime.cast(y, x.dtype())?)
    }

    /// A mixture of experts: `y[t, e]` is `x[t, e]` times the transpose of matrix `ids[t, e]` of a stack.
    pub fn indexed_moe_forward(
        &self,
        shape: &Shape,
        x: &WebGpuStorage,
        l: &Layout,
        ids: &WebGpuStorage,
        ids_l: &Layout,
    ) -> Result<(WebGpuStorage, Shape)> {
        const OP: &str = "indexed_moe_forward";
        let (experts, n, k) = shape.dims3()?;
        self.check(OP, experts.saturating_mul(n).saturating_mul(k))?;
        let Form::Blocks(quant) = form(self.dtype) else {
            crate::bail!("{OP}: the experts are not quantized but {:?}", self.dtype)
        };
        let (x_view, ids_view) = (x.view(OP, l)?, ids.view(OP, ids_l)?);
        let experts = [experts, n, k];
        let runtime = self.device.runtime();
        let value = runtime.matmul_experts(x_view, self.blocks(quant), experts, ids_view)?;
        let (tokens, picked) = ids_l.shape().dims2()?;
        let out = Shape::from((tokens, picked, n));
        let y = x.with(value, x.dtype(), out.elem_count());
        debug::indexed_moe_forward(self, shape, (x, l), (ids, ids_l), &y)?;
        Ok((y, out))
    }

    /// The blocks in the file format. Waits for the device.
    pub fn data(&self) -> Result<Vec<u8>> {
        let runtime = self.device.runtime();
        let bytes = match form(self.dtype) {
            Form::Dense(_) => runtime.read(&self.value, 0, self.bytes as u64)?,
            Form::Blocks(quant) => {
                let blocks = self.bytes / self.dtype.type_size();
                runtime.read_blocks(self.blocks(quant), blocks)?
            }
        };
        Ok(bytes)
    }
}
