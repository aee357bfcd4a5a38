//! Pipelines, kept by specialisation. Shapes are never part of the key.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::shader::compile::{Compiler, Pipeline, Signature};
use crate::shader::disk_cache::Disk;
use crate::shader::precompile::Ahead;
use crate::shader::Specialization;
use rustc_hash::FxHashMap;

/// What the encoder looks pipelines up in. What it lacks is compiled by [`Ahead`].
pub(crate) struct Pipelines {
    compiled: FxHashMap<Specialization, Arc<Pipeline>>,
    ahead: Arc<Ahead>,
    disk: Option<Disk>,
    /// An op of this submit needed one that was not there.
    missed: bool,
}

impl Pipelines {
    pub fn new(
        device: wgpu::Device,
        adapter: String,
        checked: bool,
        folder: Option<PathBuf>,
    ) -> Self {
        let disk = Disk::open(&device, folder);
        let cache = disk.as_ref().map(|disk| disk.cache().clone());
        Pipelines {
            compiled: FxHashMap::default(),
            ahead: Arc::new(Ahead::new(Compiler::new(device, adapter, checked, cache))),
            disk,
            missed: false,
        }
    }

    pub fn ahead(&self) -> &Arc<Ahead> {
        &self.ahead
    }

    /// Whether shaders pack f16 by `pack2x16float`. What has been compiled otherwise is forgotten.
    pub fn pack_f16(&mut self, packs: bool) {
        if self.ahead.pack_f16(packs) != packs {
            self.compiled.clear();
        }
    }

    pub fn len(&self) -> usize {
        self.compiled.len()
    }

    /// Called now and then: keeps what was compiled for the next run.
    pub fn save_when_quiet(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.save_when_quiet();
        }
    }

    /// The same at once.
    pub fn save(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.save();
        }
    }

    /// The pipeline of an op. If it has to be compiled, those of the ops `behind` it are, too, meanwhile.
    pub fn get<'a>(
        &mut self,
        spec: &Specialization,
        behind: impl Iterator<Item = &'a Specialization>,
    ) -> Result<Arc<Pipeline>> {
        if let Some(pipeline) = self.compiled.get(spec) {
            return Ok(pipeline.clone());
        }
        self.missed = true;
        self.ahead.want(behind);
        let pipeline = self.ahead.get(spec)?;
        self.compiled.insert(spec.clone(), pipeline.clone());
        if let Some(disk) = &mut self.disk {
            disk.compiled();
        }
        Ok(pipeline)
    }

    /// All ops of a submit are encoded.
    pub fn encoded(&mut self) {
        self.ahead.set_cold(std::mem::take(&mut self.missed));
    }

    pub fn bind_group_layout(&self, signature: Signature) -> wgpu::BindGroupLayout {
        self.ahead.compiler().layout(signature).bind_group
    }
}
