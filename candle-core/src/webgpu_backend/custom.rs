//! What a custom op without a `webgpu_fwd` does: an error that says how to add one, or, if the user opted
//! in, its `cpu_fwd` by a round trip through the CPU, which is counted.

use super::WebGpuStorage;
use crate::backend::{BackendDevice, BackendStorage};
use crate::{CpuStorage, Error, Result, Shape};

/// Set to 1 to run custom ops without a `webgpu_fwd` on the CPU.
pub const CPU_FALLBACK_VAR: &str = "CANDLE_WEBGPU_CPU_FALLBACK";

type Forward = Result<(WebGpuStorage, Shape)>;

fn allowed(name: &'static str, storage: &WebGpuStorage) -> Result<()> {
    if std::env::var(CPU_FALLBACK_VAR).is_ok_and(|v| v == "1") {
        storage.device().runtime().note_cpu_fallback();
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
    allowed(name, s)?;
    upload(s, f(&s.to_cpu_storage()?)?)
}

pub fn fallback2<F>(name: &'static str, s1: &WebGpuStorage, s2: &WebGpuStorage, f: F) -> Forward
where
    F: FnOnce(&CpuStorage, &CpuStorage) -> Result<(CpuStorage, Shape)>,
{
    allowed(name, s1)?;
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
    allowed(name, s1)?;
    let (c1, c2, c3) = (
        s1.to_cpu_storage()?,
        s2.to_cpu_storage()?,
        s3.to_cpu_storage()?,
    );
    upload(s1, f(&c1, &c2, &c3)?)
}

/// Runs `f` on the CPU's copy of `storage` and puts the result in its place.
pub fn inplace1<F>(name: &'static str, storage: &mut WebGpuStorage, f: F) -> Result<()>
where
    F: FnOnce(&mut CpuStorage) -> Result<()>,
{
    allowed(name, storage)?;
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
    allowed(name, dst)?;
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
    allowed(name, dst)?;
    let (src1, src2) = (src1.to_cpu_storage()?, src2.to_cpu_storage()?);
    let mut cpu = dst.to_cpu_storage()?;
    f(&mut cpu, &src1, &src2)?;
    *dst = dst.device().storage_from_cpu_storage_owned(cpu)?;
    Ok(())
}
