//! Quantized tensors on a WebGPU device. Blocks are unpacked in the kernels that use them; quantizing itself is the
//! CPU's, so it reads its source back.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use candle_webgpu::kernel::matmul::quantized::Blocks;
use candle_webgpu::{DType as WebGpuDType, Quant, Value, View};

use super::{GgmlDType, GgmlType, QStorage, QTensor};
use crate::backend::BackendStorage;
use crate::webgpu_backend::twin;
use crate::{
    CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, WebGpuDevice, WebGpuStorage,
};

/// How the elements of a dtype lie on the device.
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

/// The dtypes that an importance matrix can weigh.
const WEIGHED: [GgmlDType; 5] = [
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>>> + Send>>;

impl QTensor {
    /// [`QTensor::data`] without blocking.
    pub async fn data_async(&self) -> Result<Cow<'_, [u8]>> {
        match &self.storage {
            QStorage::WebGpu(storage) => Ok(Cow::from(storage.read_async()?.await?)),
            storage => storage.data(),
        }
    }
}

pub struct QWebGpuStorage {
    value: Value,
    device: WebGpuDevice,
    dtype: GgmlDType,
    /// Bytes as a file holds them.
    bytes: usize,
}

/// From the bytes of a file to the device.
pub(super) fn load(device: &WebGpuDevice, bytes: &[u8], dtype: GgmlDType) -> Result<QStorage> {
    Ok(QStorage::WebGpu(QWebGpuStorage::new(device, bytes, dtype)?))
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
    fn new(device: &WebGpuDevice, bytes: &[u8], dtype: GgmlDType) -> Result<Self> {
        if !bytes.len().is_multiple_of(dtype.type_size()) {
            crate::bail!(
                "{} bytes are not a whole number of {dtype:?} blocks, of {} bytes each",
                bytes.len(),
                dtype.type_size()
            )
        }
        let value = match form(dtype) {
            Form::Dense(_) => device.runtime().upload(bytes)?,
            Form::Blocks(quant) => device.runtime().upload_blocks(quant, bytes)?,
        };
        Ok(Self {
            value,
            device: device.clone(),
            dtype,
            bytes: bytes.len(),
        })
    }

    /// Zeros, `count` of them.
    pub fn zeros(device: &WebGpuDevice, count: usize, dtype: GgmlDType) -> Result<Self> {
        let blocks = count.div_ceil(dtype.block_size());
        let bytes = blocks.saturating_mul(dtype.type_size());
        let on_device = match form(dtype) {
            Form::Dense(_) => bytes,
            Form::Blocks(quant) => quant.info().device_bytes(blocks),
        };
        Ok(Self {
            value: device.runtime().fill(on_device, WebGpuDType::U8, 0)?,
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

    /// Elements.
    fn count(&self) -> usize {
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
            crate::bail!("{op}: {count} elements of the {} there are", self.count())
        }
        Ok(())
    }

    /// The first elements, unpacked there.
    fn on_cpu(&self, shape: impl Into<Shape>) -> Result<Tensor> {
        let blocks = QStorage::from_data(self.data()?.into(), &Device::Cpu, self.dtype)?;
        let all = QTensor::new(blocks, self.count())?.dequantize(&Device::Cpu)?;
        let shape = shape.into();
        all.narrow(0, 0, shape.elem_count())?.reshape(shape)
    }

    fn unpack(&self, count: usize, to: WebGpuDType, dtype: DType) -> Result<WebGpuStorage> {
        const OP: &str = "dequantize";
        self.check(OP, count)?;
        let runtime = self.device.runtime();
        let value = match form(self.dtype) {
            Form::Dense(gpu_dtype) => {
                runtime.cast(self.dense(OP, gpu_dtype, &[count], &[1])?, to)?
            }
            Form::Blocks(quant) => runtime.dequantize(self.blocks(quant), count, to)?,
        };
        let here = WebGpuStorage::new(value, self.device.clone(), dtype, count);
        twin::quantized(OP, &[], &here, || self.on_cpu(count), |w, _| Ok(w))?;
        Ok(here)
    }

    /// The first `count` elements in f32.
    pub fn dequantize(&self, count: usize) -> Result<WebGpuStorage> {
        self.unpack(count, WebGpuDType::F32, DType::F32)
    }

    /// The first `count` elements in f16.
    pub fn dequantize_f16(&self, count: usize) -> Result<WebGpuStorage> {
        self.unpack(count, WebGpuDType::F16, DType::F16)
    }

    /// Takes the blocks that `quantize` makes of as many elements on the CPU.
    fn fill(&mut self, quantize: impl FnOnce(&mut QStorage) -> Result<()>) -> Result<()> {
        let mut blocks = Device::Cpu.qzeros(self.count(), self.dtype)?;
        quantize(&mut blocks)?;
        *self = Self::new(&self.device, &blocks.data()?, self.dtype)?;
        Ok(())
    }

    /// Waits, since it reads `src` back.
    pub fn quantize(&mut self, src: &WebGpuStorage) -> Result<()> {
        self.quantize_onto(&src.to_cpu_storage()?)
    }

    /// Waits, since it reads `src` back.
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

    /// Bytes as a file holds them.
    pub fn storage_size_in_bytes(&self) -> usize {
        self.bytes
    }

    /// Rows of a matrix in f32, for ids in u32.
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
        let here = ids.with(value, DType::F32, count);
        let of = [("ids", ids, ids_l)];
        let matrix = || self.on_cpu((rows, hidden));
        let picked = |w: Tensor, of: &[Tensor]| w.index_select(&of[0].flatten_all()?, 0);
        twin::quantized(OP, &of, &here, matrix, picked)?;
        Ok(here)
    }

    /// `x` times the transpose of this matrix, in the dtype of `x` (f32, f16 or bf16), added up in f32.
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
        let here = x.with(value, x.dtype(), out.elem_count());
        let of = [("x", x, l)];
        let product = |w: Tensor, of: &[Tensor]| {
            of[0]
                .to_dtype(DType::F32)?
                .reshape(((), k))?
                .matmul(&w.t()?)
        };
        twin::quantized(OP, &of, &here, || self.on_cpu((n, k)), product)?;
        Ok((here, out))
    }

    /// Where the dtypes differ, both are f32 for the product.
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

    /// `y[t, e] = x[t, e] times the transpose of matrix ids[t, e]` of a stack of them: a mixture of experts.
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
        let shape = Shape::from((tokens, picked, n));
        let here = x.with(value, x.dtype(), shape.elem_count());
        let of = [("x", x, l), ("ids", ids, ids_l)];
        let matrix = || self.on_cpu((experts[0], n, k));
        let mixture = |w: Tensor, of: &[Tensor]| {
            let (x, ids) = (of[0].to_dtype(DType::F32)?, of[1].flatten_all()?);
            let all = (tokens, picked, k);
            let x = x.broadcast_as(all)?.reshape((tokens * picked, 1, k))?;
            x.matmul(&w.index_select(&ids, 0)?.transpose(1, 2)?)
        };
        twin::quantized(OP, &of, &here, matrix, mixture)?;
        Ok((here, shape))
    }

    /// The same without blocking: the copy is made by this call, awaiting gives its bytes.
    fn read_async(&self) -> Result<Reading> {
        let runtime = self.device.runtime();
        Ok(match form(self.dtype) {
            Form::Dense(_) => {
                let reading = runtime.read_async(&self.value, 0, self.bytes as u64)?;
                Box::pin(async move { Ok(reading.bytes().await?) })
            }
            Form::Blocks(quant) => {
                let blocks = self.bytes / self.dtype.type_size();
                let reading = runtime.read_blocks_async(self.blocks(quant), blocks)?;
                Box::pin(async move { Ok(reading.await?) })
            }
        })
    }

    /// The blocks as a file would hold them. Waits for everything recorded before.
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
