//! Pipelines: compiled on first use, kept by specialisation. Shapes are never part of the key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::hash::Map;
use crate::link::{link_for, Spec, Target};
use crate::queue::PARAMS_SLOT;
use crate::wait::scoped;

/// Runs shaders with all of wgpu's runtime checks on.
pub const CHECKED_VAR: &str = "CANDLE_WEBGPU_CHECKED";

/// Number of storage buffers, and which of them are written: one bind group layout each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    pub count: u8,
    pub writes: u8,
}

impl Signature {
    fn of(spec: &Spec) -> Self {
        let writes = spec
            .kernel
            .bindings
            .iter()
            .enumerate()
            .fold(0, |mask, (i, b)| mask | (u8::from(b.write) << i));
        Signature {
            count: spec.kernel.bindings.len() as u8,
            writes,
        }
    }
}

pub(crate) struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub signature: Signature,
}

struct Layout {
    bind_group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

pub(crate) struct Pipelines {
    device: wgpu::Device,
    adapter: String,
    checked: bool,
    packs: bool,
    compiled: Map<Spec, Arc<Pipeline>>,
    layouts: HashMap<Signature, Layout>,
    disk: Option<Disk>,
}

impl Pipelines {
    pub fn new(device: wgpu::Device, adapter: String) -> Self {
        Pipelines {
            disk: Disk::open(&device),
            device,
            adapter,
            checked: std::env::var(CHECKED_VAR).is_ok_and(|v| v != "0" && !v.is_empty()),
            packs: false,
            compiled: Map::default(),
            layouts: HashMap::new(),
        }
    }

    /// Whether shaders pack f16 by `pack2x16float`. What has been compiled otherwise is forgotten.
    pub fn pack_f16(&mut self, packs: bool) {
        if self.packs != packs {
            self.packs = packs;
            self.compiled.clear();
        }
    }

    pub fn len(&self) -> usize {
        self.compiled.len()
    }

    /// Called now and then: keeps what was compiled for the next run.
    pub fn save(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.save();
        }
    }

    pub fn get(&mut self, spec: &Spec) -> Result<Arc<Pipeline>> {
        if let Some(pipeline) = self.compiled.get(spec) {
            return Ok(pipeline.clone());
        }
        let pipeline = Arc::new(self.compile(spec)?);
        self.compiled.insert(spec.clone(), pipeline.clone());
        Ok(pipeline)
    }

    pub fn bind_group_layout(&mut self, signature: Signature) -> &wgpu::BindGroupLayout {
        &self.layout(signature).bind_group
    }

    fn layout(&mut self, signature: Signature) -> &Layout {
        let device = &self.device;
        self.layouts.entry(signature).or_insert_with(|| {
            let params = wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Uniform,
                    has_dynamic_offset: true,
                    min_binding_size: wgpu::BufferSize::new(PARAMS_SLOT),
                },
                count: None,
            };
            let storage = (0..signature.count).map(|i| wgpu::BindGroupLayoutEntry {
                binding: u32::from(i) + 1,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage {
                        read_only: signature.writes >> i & 1 == 0,
                    },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            });
            let entries: Vec<_> = std::iter::once(params).chain(storage).collect();
            let bind_group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            });
            let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&bind_group)],
                immediate_size: 0,
            });
            Layout {
                bind_group,
                pipeline,
            }
        })
    }

    /// wgpu does not check workgroup storage before it hands a kernel to the driver, and a kernel over
    /// the limit hung an NVIDIA H200 (driver 580, Vulkan): check here.
    fn check(&self, spec: &Spec) -> Result<()> {
        let limits = self.device.limits();
        let over = |what, needed: u64, limit: u64| {
            if needed <= limit {
                return Ok(());
            }
            Err(Error::OverLimit {
                kernel: spec.name(),
                what,
                needed,
                limit,
                adapter: self.adapter.clone(),
            })
        };
        over(
            "bytes of workgroup storage",
            (spec.kernel.shared)(spec).into(),
            limits.max_compute_workgroup_storage_size.into(),
        )?;
        over(
            "invocations in a workgroup",
            spec.kernel.workgroup.into(),
            limits.max_compute_invocations_per_workgroup.into(),
        )?;
        over(
            "storage buffers",
            spec.kernel.bindings.len() as u64,
            limits.max_storage_buffers_per_shader_stage.into(),
        )
    }

    fn compile(&mut self, spec: &Spec) -> Result<Pipeline> {
        self.check(spec)?;
        let name = spec.name();
        let text = link_for(spec, TARGET, self.packs)?;
        let checks = if self.checked {
            wgpu::ShaderRuntimeChecks::checked()
        } else {
            wgpu::ShaderRuntimeChecks::unchecked()
        };
        let signature = Signature::of(spec);
        let device = self.device.clone();
        let cache = self.disk.as_ref().map(|d| d.cache().clone());
        let layout = self.layout(signature);
        let mut constants: Vec<(&str, f64)> = vec![("WORKGROUP", f64::from(spec.kernel.workgroup))];
        constants.extend(spec.overrides.iter().map(|(k, v)| (*k, f64::from(*v))));
        let make = || {
            // SAFETY: kernels guard their grids and every index that comes from a tensor, and their loops
            // end; the suite also runs with all checks on (CANDLE_WEBGPU_CHECKED=1).
            let module = unsafe {
                device.create_shader_module_trusted(
                    wgpu::ShaderModuleDescriptor {
                        label: Some(&name),
                        source: wgpu::ShaderSource::Wgsl(text.into()),
                    },
                    checks,
                )
            };
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&name),
                layout: Some(&layout.pipeline),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &constants,
                    zero_initialize_workgroup_memory: false,
                },
                cache: cache.as_ref(),
            })
        };
        let (pipeline, error) = scoped(&device, wgpu::ErrorFilter::Validation, make);
        if let Some(error) = error {
            return Err(Error::Shader {
                name,
                message: error.to_string(),
            });
        }
        if let Some(disk) = &mut self.disk {
            disk.compiled();
        }
        Ok(Pipeline {
            pipeline,
            signature,
        })
    }
}

/// Who reads shader text on this target. In a browser it is the browser, whose reader is taken to be
/// as strict as Tint.
const TARGET: Target = if cfg!(target_arch = "wasm32") {
    Target::Tint
} else {
    Target::Naga
};
