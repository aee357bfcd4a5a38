//! Compiled pipelines on disk, if the adapter supports pipeline caches. A driver takes up to half a second for an unrolled matmul kernel;
//! the cache saves this time in later runs.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::util::join;

/// Pipelines are compiled in bursts. The file is written once no pipeline has been compiled for this long.
const QUIET: Duration = Duration::from_millis(300);

pub(crate) struct DiskCache {
    pub cache: wgpu::PipelineCache,
    path: PathBuf,
    /// When the newest pipeline that the file lacks was compiled.
    dirty: Option<Instant>,
    /// The thread that writes the file.
    writer: Option<JoinHandle<()>>,
}

impl DiskCache {
    /// `None` if the device does not support pipeline caches or there is no cache folder.
    pub fn open(device: &wgpu::Device, folder: Option<PathBuf>) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let key = wgpu::util::pipeline_cache_key(&device.adapter_info())?;
        let path = folder?.join(key);
        let data = std::fs::read(&path).ok();
        // SAFETY: the data, if any, came from `get_data` for an adapter with the same key; wgpu checks its header, and `fallback` starts
        // an empty cache if it does not fit.
        let cache = unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: None,
                data: data.as_deref(),
                fallback: true,
            })
        };
        Some(DiskCache {
            cache,
            path,
            dirty: None,
            writer: None,
        })
    }

    /// Notes that a pipeline was compiled.
    pub fn mark_dirty(&mut self) {
        self.dirty = Some(Instant::now());
    }

    /// Starts to write the file if it lacks pipelines and nothing was compiled for [`QUIET`]. A thread writes it, so
    /// that the encoder does not wait for the driver and the disk.
    pub fn save(&mut self) {
        if self.dirty.is_none_or(|since| since.elapsed() < QUIET) {
            return;
        }
        self.dirty = None;
        join(self.writer.take());
        let (cache, path) = (self.cache.clone(), self.path.clone());
        let thread = std::thread::Builder::new().name("candle-webgpu-save".into());
        // If no thread can be started, `finish` writes the file.
        match thread.spawn(move || write(&cache, &path)) {
            Ok(writer) => self.writer = Some(writer),
            Err(_) => self.mark_dirty(),
        }
    }

    /// Writes the file if it lacks pipelines. Afterwards no thread is writing it.
    pub fn finish(&mut self) {
        join(self.writer.take());
        if self.dirty.take().is_some() {
            write(&self.cache, &self.path);
        }
    }
}

impl Drop for DiskCache {
    /// The thread must not be inside the driver when the program ends, or be the last owner of the device.
    fn drop(&mut self) {
        join(self.writer.take());
    }
}

/// Ignores errors, since the cache is optional.
fn write(cache: &wgpu::PipelineCache, path: &Path) {
    let (Some(data), Some(folder)) = (cache.get_data(), path.parent()) else {
        return;
    };
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let _ = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&part, data))
        .and_then(|()| std::fs::rename(&part, path));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::dtype::DType;
    use crate::kernel::elementwise::unary::UNARY;
    use crate::shader::compile::Compiler;
    use crate::shader::{Access, Specialization};

    #[test]
    fn pipelines_are_written_once_compiling_pauses() {
        let device = Device::separate(0).expect("an adapter");
        let device = device.executor().device.clone();
        let name = format!("candle-webgpu-disk-cache-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let open = || DiskCache::open(&device, Some(folder.clone()));
        let Some(mut disk) = open() else {
            let features = device.features();
            assert!(!features.contains(wgpu::Features::PIPELINE_CACHE));
            return;
        };
        let cache = Some(disk.cache.clone());
        let compiler = Compiler::new(device.clone(), String::new(), false, cache);
        let operands = [(DType::F32, Access::Flat), (DType::F32, Access::Put)];
        let spec = Specialization::new(&UNARY, "uexp", &operands);
        compiler.compile(&spec).expect("compiled");
        disk.mark_dirty();
        disk.save();
        assert!(disk.writer.is_none(), "a pipeline was compiled just now");
        disk.dirty = Instant::now().checked_sub(QUIET);
        disk.save();
        disk.finish();
        let written = std::fs::read(&disk.path).ok();
        assert!(written.is_some() && written == disk.cache.get_data());
        std::fs::remove_file(&disk.path).expect("removed");
        disk.finish();
        assert!(!disk.path.exists(), "nothing new");
        disk.mark_dirty();
        disk.finish();
        assert!(open().is_some() && disk.path.exists());
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
