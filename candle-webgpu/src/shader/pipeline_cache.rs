//! Compiled pipelines by specialization. Shapes are never part of the key.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::shader::compile::{Compiler, Pipeline, Signature};
use crate::shader::disk_cache::DiskCache;
use crate::shader::precompile::Precompiler;
use crate::shader::Specialization;
use rustc_hash::FxHashMap;

/// The encoder's pipelines. The [`Precompiler`] compiles missing ones.
pub(crate) struct Pipelines {
    compiled: FxHashMap<Specialization, Arc<Pipeline>>,
    pub precompiler: Arc<Precompiler>,
    disk: Option<DiskCache>,
    /// An op of this submit needed a missing pipeline.
    missed: bool,
}

impl Pipelines {
    pub fn new(
        device: wgpu::Device,
        adapter: String,
        checked: bool,
        folder: Option<PathBuf>,
    ) -> Self {
        let disk = DiskCache::open(&device, folder);
        let cache = disk.as_ref().map(|disk| disk.cache.clone());
        Pipelines {
            compiled: FxHashMap::default(),
            precompiler: Arc::new(Precompiler::new(Compiler::new(
                device, adapter, checked, cache,
            ))),
            disk,
            missed: false,
        }
    }

    /// Sets whether shaders pack f16 with `pack2x16float`. A change drops all pipelines.
    pub fn pack_f16(&mut self, packs: bool) {
        if self.precompiler.compiler().pack_f16(packs) != packs {
            self.precompiler.clear();
            self.compiled.clear();
        }
    }

    pub fn len(&self) -> usize {
        self.compiled.len()
    }

    /// Starts to write the disk cache if nothing was compiled lately. Must be called regularly.
    pub fn save(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.save();
        }
    }

    /// Writes the disk cache if it lacks pipelines.
    pub fn finish_saving(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.finish();
        }
    }

    /// The pipeline of an op. If it is missing, those of the `next` ops are compiled in parallel. `None` in a browser while it is compiled.
    pub fn get<'a>(
        &mut self,
        spec: &Specialization,
        next: impl Iterator<Item = &'a Specialization>,
    ) -> Result<Option<Arc<Pipeline>>> {
        if let Some(pipeline) = self.compiled.get(spec) {
            return Ok(Some(pipeline.clone()));
        }
        self.missed = true;
        self.precompiler.request(next);
        let Some(pipeline) = self.precompiler.get(spec)? else {
            return Ok(None);
        };
        self.compiled.insert(spec.clone(), pipeline.clone());
        if let Some(disk) = &mut self.disk {
            disk.mark_dirty();
        }
        Ok(Some(pipeline))
    }

    /// Must be called after the last op of a submit.
    pub fn end_submit(&mut self) {
        self.precompiler.set_cold(std::mem::take(&mut self.missed));
    }

    pub fn bind_group_layout(&self, signature: Signature) -> wgpu::BindGroupLayout {
        self.precompiler.compiler().layout(signature).bind_group
    }
}
