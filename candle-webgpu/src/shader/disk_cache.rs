//! Compiled pipelines on disk, if the adapter supports pipeline caches. A driver takes up to half a second for an unrolled matmul kernel;
//! the cache saves this time in later runs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pipelines are compiled in bursts. The file is written once no pipeline has been compiled for this long.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

pub(crate) struct DiskCache {
    pub cache: wgpu::PipelineCache,
    path: PathBuf,
    /// When the newest pipeline that the file lacks was compiled.
    dirty: Option<Instant>,
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
        })
    }

    /// Notes that a pipeline was compiled.
    pub fn mark_dirty(&mut self) {
        self.dirty = Some(Instant::now());
    }

    /// Writes the file if it lacks pipelines and nothing was compiled for `quiet`. Ignores write errors, since the cache is optional.
    pub fn save(&mut self, quiet: Duration) {
        if self.dirty.is_none_or(|since| since.elapsed() < quiet) {
            return;
        }
        self.dirty = None;
        let (Some(data), Some(folder)) = (self.cache.get_data(), self.path.parent()) else {
            return;
        };
        let part = self
            .path
            .with_extension(format!("{}.part", std::process::id()));
        let _ = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&part, data))
            .and_then(|()| std::fs::rename(&part, &self.path));
    }
}
