//! The default `webgpu_fwd` of custom ops. It returns an error that says how to implement the method. With
//! `CANDLE_WEBGPU_CPU_FALLBACK=1` it runs `cpu_fwd` on copies of the data instead; `Stats::cpu_fallbacks` counts these runs.

pub use candle_webgpu::CPU_FALLBACK_VAR;

use super::WebGpuStorage;
use crate::backend::{BackendDevice, BackendStorage};
use crate::{CpuStorage, Error, Result, Shape};

type Forward = Result<(WebGpuStorage, Shape)>;

/// Counts a fallback; an error if fallbacks are off.
fn allow(name: &'static str, storage: &WebGpuStorage) -> Result<()> {
    let device = storage.device().runtime();
    if device.cpu_fallback() {
        device.note_cpu_fallback();
        return Ok(());
    }
    Err(Error::Msg(format!(
        "the custom op {name} has no WebGPU implementation: implement `webgpu_fwd` for it, or set \
         {CPU_FALLBACK_VAR}=1 to run its `cpu_fwd` by a round trip through the CPU"
    ))
    .bt())
}

fn upload(like: &WebGpuStorage, result: (CpuStorage, Shape)) -> Forward {
    let (storage, shape) = result;
    Ok((
        like.device().storage_from_cpu_storage_owned(storage)?,
        shape,
    ))
}

pub fn fallback1<F>(name: &'static str, s: &WebGpuStorage, f: F) -> Forward
where
    F: FnOnce(&CpuStorage) -> Result<(CpuStorage, Shape)>,
{
    allow(name, s)?;
    upload(s, f(&s.to_cpu_storage()?)?)
}

pub fn fallback2<F>(name: &'static str, s1: &WebGpuStorage, s2: &WebGpuStorage, f: F) -> Forward
where
    F: FnOnce(&CpuStorage, &CpuStorage) -> Result<(CpuStorage, Shape)>,
{
    allow(name, s1)?;
    upload(s1, f(&s1.to_cpu_storage()?, &s2.to_cpu_storage()?)?)
}

pub fn fallback3<F>(
    name: &'static str,
    s1: &WebGpuStorage,
    s2: &WebGpuStorage,
    s3: &WebGpuStorage,
    f: F,
) -> Forward
where
    F: FnOnce(&CpuStorage, &CpuStorage, &CpuStorage) -> Result<(CpuStorage, Shape)>,
{
    allow(name, s1)?;
    let (c1, c2, c3) = (
        s1.to_cpu_storage()?,
        s2.to_cpu_storage()?,
        s3.to_cpu_storage()?,
    );
    upload(s1, f(&c1, &c2, &c3)?)
}

/// Runs `f` on a CPU copy of `storage` and uploads the result.
pub fn inplace1<F>(name: &'static str, storage: &mut WebGpuStorage, f: F) -> Result<()>
where
    F: FnOnce(&mut CpuStorage) -> Result<()>,
{
    allow(name, storage)?;
    let mut cpu = storage.to_cpu_storage()?;
    f(&mut cpu)?;
    *storage = storage.device().storage_from_cpu_storage_owned(cpu)?;
    Ok(())
}

pub fn inplace2<F>(
    name: &'static str,
    dst: &mut WebGpuStorage,
    src: &WebGpuStorage,
    f: F,
) -> Result<()>
where
    F: FnOnce(&mut CpuStorage, &CpuStorage) -> Result<()>,
{
    allow(name, dst)?;
    let src = src.to_cpu_storage()?;
    let mut cpu = dst.to_cpu_storage()?;
    f(&mut cpu, &src)?;
    *dst = dst.device().storage_from_cpu_storage_owned(cpu)?;
    Ok(())
}

pub fn inplace3<F>(
    name: &'static str,
    dst: &mut WebGpuStorage,
    src1: &WebGpuStorage,
    src2: &WebGpuStorage,
    f: F,
) -> Result<()>
where
    F: FnOnce(&mut CpuStorage, &CpuStorage, &CpuStorage) -> Result<()>,
{
    allow(name, dst)?;
    let (src1, src2) = (src1.to_cpu_storage()?, src2.to_cpu_storage()?);
    let mut cpu = dst.to_cpu_storage()?;
    f(&mut cpu, &src1, &src2)?;
    *dst = dst.device().storage_from_cpu_storage_owned(cpu)?;
    Ok(())
}
