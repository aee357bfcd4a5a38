//! Compiled pipelines on disk, where the adapter can hand them out. A kernel of unrolled matrix code takes
//! the driver up to half a second; the second run of a program should not pay again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pipelines come in bursts; write once a burst is over.
const QUIET: Duration = Duration::from_millis(300);

pub(crate) struct Disk {
    cache: wgpu::PipelineCache,
    path: PathBuf,
    /// When the last pipeline was compiled that the file does not have.
    dirty: Option<Instant>,
}

impl Disk {
    /// `None` where the device has no pipeline cache or there is no folder for it.
    pub fn open(device: &wgpu::Device, folder: Option<PathBuf>) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let key = wgpu::util::pipeline_cache_key(&device.adapter_info())?;
        let path = folder?.join(key);
        let data = std::fs::read(&path).ok();
        // SAFETY: the data, if any, is what `get_data` gave for an adapter with the same key; wgpu checks
        // its header, and `fallback` starts empty if it does not fit.
        let cache = unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: None,
                data: data.as_deref(),
                fallback: true,
            })
        };
        Some(Disk {
            cache,
            path,
            dirty: None,
        })
    }

    pub fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    pub fn compiled(&mut self) {
        self.dirty = Some(Instant::now());
    }

    /// Writes the file if pipelines were compiled and a moment has passed.
    pub fn save_when_quiet(&mut self) {
        if self.dirty.is_some_and(|since| since.elapsed() > QUIET) {
            self.save();
        }
    }

    /// Writes the file if pipelines were compiled. A folder that cannot be written is no error: the cache is only a shortcut.
    pub fn save(&mut self) {
        if self.dirty.take().is_none() {
            return;
        }
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
