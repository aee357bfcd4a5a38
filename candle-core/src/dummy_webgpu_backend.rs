//! Replaces `webgpu_backend` if the feature `webgpu` is off.
//!
//! The types are uninhabited, so methods are unreachable and need no panics. Only constructors can be called; they
//! return `Error::NotCompiledWithWebGpuSupport`.

use crate::backend::{BackendDevice, BackendStorage};
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, DeviceLocation, Error, Layout, Result, Shape, WithDType};

#[derive(Debug, Clone, Copy)]
enum Never {}

#[derive(Debug, Clone)]
pub struct WebGpuDevice(Never);

impl WebGpuDevice {
    /// Returns any type, since no device can exist.
    pub(crate) fn never<T>(&self) -> T {
        match self.0 {}
    }

    pub async fn new_async(_: usize) -> Result<Self> {
        Err(Error::NotCompiledWithWebGpuSupport)
    }

    pub async fn synchronize_async(&self) -> Result<()> {
        self.never()
    }
}

#[derive(Debug)]
pub struct WebGpuStorage(WebGpuDevice);

impl WebGpuStorage {
    pub(crate) fn read_async(&self, _: &Layout) -> Result<std::future::Ready<Result<CpuStorage>>> {
        self.never()
    }

    pub(crate) fn grouped_conv(
        &self,
        _: &Layout,
        _: (&Self, &Layout),
        _: usize,
        _: [usize; 3],
    ) -> Result<Option<Self>> {
        self.never()
    }

    fn never<T>(&self) -> T {
        self.0.never()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WebGpuError {}

/// False: a build without the feature `webgpu` has no WebGPU device.
pub fn is_available() -> bool {
    false
}

/// Always false; see [`is_available`].
pub async fn is_available_async() -> bool {
    false
}

/// The default `webgpu_fwd` of custom ops.
pub mod custom {
    use super::{CpuStorage, Result, Shape, WebGpuStorage};

    type Forward = Result<(WebGpuStorage, Shape)>;

    pub fn fallback1<F>(_: &'static str, s: &WebGpuStorage, _: F) -> Forward
    where
        F: FnOnce(&CpuStorage) -> Result<(CpuStorage, Shape)>,
    {
        s.never()
    }

    pub fn fallback2<F>(_: &'static str, s: &WebGpuStorage, _: &WebGpuStorage, _: F) -> Forward
    where
        F: FnOnce(&CpuStorage, &CpuStorage) -> Result<(CpuStorage, Shape)>,
    {
        s.never()
    }

    pub fn fallback3<F>(
        _: &'static str,
        s: &WebGpuStorage,
        _: &WebGpuStorage,
        _: &WebGpuStorage,
        _: F,
    ) -> Forward
    where
        F: FnOnce(&CpuStorage, &CpuStorage, &CpuStorage) -> Result<(CpuStorage, Shape)>,
    {
        s.never()
    }

    pub fn inplace1<F>(_: &'static str, dst: &mut WebGpuStorage, _: F) -> Result<()>
    where
        F: FnOnce(&mut CpuStorage) -> Result<()>,
    {
        dst.never()
    }

    pub fn inplace2<F>(
        _: &'static str,
        dst: &mut WebGpuStorage,
        _: &WebGpuStorage,
        _: F,
    ) -> Result<()>
    where
        F: FnOnce(&mut CpuStorage, &CpuStorage) -> Result<()>,
    {
        dst.never()
    }

    pub fn inplace3<F>(
        _: &'static str,
        dst: &mut WebGpuStorage,
        _: &WebGpuStorage,
        _: &WebGpuStorage,
        _: F,
    ) -> Result<()>
    where
        F: FnOnce(&mut CpuStorage, &CpuStorage, &CpuStorage) -> Result<()>,
    {
        dst.never()
    }
}

impl BackendStorage for WebGpuStorage {
    type Device = WebGpuDevice;

    fn device(&self) -> &WebGpuDevice {
        &self.0
    }

    fn try_clone(&self, _: &Layout) -> Result<Self> {
        self.never()
    }

    fn dtype(&self) -> DType {
        self.never()
    }

    fn const_set(&mut self, _: Scalar, _: &Layout) -> Result<()> {
        self.never()
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        self.never()
    }

    fn affine(&self, _: &Layout, _: f64, _: f64) -> Result<Self> {
        self.never()
    }

    fn powf(&self, _: &Layout, _: f64) -> Result<Self> {
        self.never()
    }

    fn elu(&self, _: &Layout, _: f64) -> Result<Self> {
        self.never()
    }

    fn reduce_op(&self, _: ReduceOp, _: &Layout, _: &[usize]) -> Result<Self> {
        self.never()
    }

    fn cmp(&self, _: CmpOp, _: &Self, _: &Layout, _: &Layout) -> Result<Self> {
        self.never()
    }

    fn to_dtype(&self, _: &Layout, _: DType) -> Result<Self> {
        self.never()
    }

    fn unary_impl<B: UnaryOpT>(&self, _: &Layout) -> Result<Self> {
        self.never()
    }

    fn binary_impl<B: BinaryOpT>(&self, _: &Self, _: &Layout, _: &Layout) -> Result<Self> {
        self.never()
    }

    fn where_cond(&self, _: &Layout, _: &Self, _: &Layout, _: &Self, _: &Layout) -> Result<Self> {
        self.never()
    }

    fn conv1d(&self, _: &Layout, _: &Self, _: &Layout, _: &ParamsConv1D) -> Result<Self> {
        self.never()
    }

    fn conv_transpose1d(
        &self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &ParamsConvTranspose1D,
    ) -> Result<Self> {
        self.never()
    }

    fn conv2d(&self, _: &Layout, _: &Self, _: &Layout, _: &ParamsConv2D) -> Result<Self> {
        self.never()
    }

    fn conv_transpose2d(
        &self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &ParamsConvTranspose2D,
    ) -> Result<Self> {
        self.never()
    }

    fn avg_pool2d(&self, _: &Layout, _: (usize, usize), _: (usize, usize)) -> Result<Self> {
        self.never()
    }

    fn max_pool2d(&self, _: &Layout, _: (usize, usize), _: (usize, usize)) -> Result<Self> {
        self.never()
    }

    fn upsample_nearest1d(&self, _: &Layout, _: usize) -> Result<Self> {
        self.never()
    }

    fn upsample_nearest2d(&self, _: &Layout, _: usize, _: usize) -> Result<Self> {
        self.never()
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
        self.never()
    }

    fn gather(&self, _: &Layout, _: &Self, _: &Layout, _: usize) -> Result<Self> {
        self.never()
    }

    fn scatter_set(
        &mut self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: usize,
    ) -> Result<()> {
        self.never()
    }

    fn scatter_add_set(
        &mut self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: usize,
    ) -> Result<()> {
        self.never()
    }

    fn index_select(&self, _: &Self, _: &Layout, _: &Layout, _: usize) -> Result<Self> {
        self.never()
    }

    fn index_add(
        &self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: &Self,
        _: &Layout,
        _: usize,
    ) -> Result<Self> {
        self.never()
    }

    fn matmul(
        &self,
        _: &Self,
        _: (usize, usize, usize, usize),
        _: &Layout,
        _: &Layout,
    ) -> Result<Self> {
        self.never()
    }

    fn copy_strided_src(&self, _: &mut Self, _: usize, _: &Layout) -> Result<()> {
        self.never()
    }

    fn copy2d(
        &self,
        _: &mut Self,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> Result<()> {
        self.never()
    }
}

impl BackendDevice for WebGpuDevice {
    type Storage = WebGpuStorage;

    fn new(_: usize) -> Result<Self> {
        Err(Error::NotCompiledWithWebGpuSupport)
    }

    fn location(&self) -> DeviceLocation {
        self.never()
    }

    fn same_device(&self, _: &Self) -> bool {
        self.never()
    }

    fn zeros_impl(&self, _: &Shape, _: DType) -> Result<WebGpuStorage> {
        self.never()
    }

    unsafe fn alloc_uninit(&self, _: &Shape, _: DType) -> Result<WebGpuStorage> {
        self.never()
    }

    fn storage_from_slice<T: WithDType>(&self, _: &[T]) -> Result<WebGpuStorage> {
        self.never()
    }

    fn storage_from_cpu_storage(&self, _: &CpuStorage) -> Result<WebGpuStorage> {
        self.never()
    }

    fn storage_from_cpu_storage_owned(&self, _: CpuStorage) -> Result<WebGpuStorage> {
        self.never()
    }

    fn rand_uniform(&self, _: &Shape, _: DType, _: f64, _: f64) -> Result<WebGpuStorage> {
        self.never()
    }

    fn rand_normal(&self, _: &Shape, _: DType, _: f64, _: f64) -> Result<WebGpuStorage> {
        self.never()
    }

    fn set_seed(&self, _: u64) -> Result<()> {
        self.never()
    }

    fn get_current_seed(&self) -> Result<u64> {
        self.never()
    }

    fn synchronize(&self) -> Result<()> {
        self.never()
    }
}
