//! Compiles a specialization to a pipeline: checks limits, links the text, creates the layout. May be called on any thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use crate::error::{Error, Result};
use crate::shader::{link_for, Specialization, Target, Traits, PARAMS_SLOT};
#[cfg(target_arch = "wasm32")]
use crate::util::browser;
use crate::util::lock;
#[cfg(not(target_arch = "wasm32"))]
use crate::util::scoped;

/// The number of storage buffers, and a bit mask of those that are written: the key of a bind group layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Signature {
    pub count: u8,
    pub writes: u16,
}

impl Signature {
    fn of(spec: &Specialization) -> Self {
        let writes = spec
            .bindings()
            .enumerate()
            .fold(0, |mask, (i, b)| mask | (u16::from(b.write) << i));
        Signature {
            count: spec.bindings().count() as u8,
            writes,
        }
    }
}

pub(crate) struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub signature: Signature,
}

/// The layouts shared by all pipelines of a signature.
#[derive(Clone)]
pub(crate) struct Layout {
    pub bind_group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

pub(crate) struct Compiler {
    device: wgpu::Device,
    adapter: String,
    checked: bool,
    /// Whether shaders pack f16 with `pack2x16float`.
    packs: AtomicBool,
    /// Whether parameters are immediates instead of a uniform buffer.
    immediates: bool,
    layouts: Mutex<HashMap<Signature, Layout>>,
    cache: Option<wgpu::PipelineCache>,
}

impl Compiler {
    pub fn new(
        device: wgpu::Device,
        adapter: String,
        checked: bool,
        cache: Option<wgpu::PipelineCache>,
    ) -> Self {
        Compiler {
            immediates: immediates(&device),
            device,
            adapter,
            checked,
            packs: AtomicBool::new(false),
            layouts: Mutex::default(),
            cache,
        }
    }

    /// Sets whether shaders pack f16 with `pack2x16float`; returns the old value.
    pub fn pack_f16(&self, packs: bool) -> bool {
        self.packs.swap(packs, Ordering::Relaxed)
    }

    pub fn layout(&self, signature: Signature) -> Layout {
        let mut layouts = lock(&self.layouts);
        let made = layouts.entry(signature);
        made.or_insert_with(|| layout(&self.device, signature, self.immediates))
            .clone()
    }

    /// Checks a kernel against the adapter's limits. wgpu does not check workgroup storage before it calls the driver, and a kernel over
    /// the limit hung an NVIDIA H200 (driver 580, Vulkan).
    fn check(&self, spec: &Specialization) -> Result<()> {
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
            spec.workgroup.into(),
            limits.max_compute_invocations_per_workgroup.into(),
        )?;
        over(
            "storage buffers",
            spec.bindings().count() as u64,
            limits.max_storage_buffers_per_shader_stage.into(),
        )
    }

    /// Everything but the driver's part: checks and links a specialization and creates its module.
    fn prepare(&self, spec: &Specialization) -> Result<Prepared> {
        self.check(spec)?;
        let name = spec.name();
        let traits = Traits {
            packs: self.packs.load(Ordering::Relaxed),
            immediates: self.immediates,
        };
        let text = link_for(spec, TARGET, traits)?;
        let checks = if self.checked {
            wgpu::ShaderRuntimeChecks::checked()
        } else {
            wgpu::ShaderRuntimeChecks::unchecked()
        };
        let mut constants: Vec<(&'static str, f64)> =
            vec![("WORKGROUP", f64::from(spec.workgroup))];
        constants.extend(spec.overrides.iter().map(|(k, v)| (*k, f64::from(*v))));
        // SAFETY: kernels check their grids and every index read from a tensor, and their loops terminate. The test suite also runs
        // with all runtime checks enabled (CANDLE_WEBGPU_CHECKED=1).
        let module = unsafe {
            self.device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: Some(&name),
                    source: wgpu::ShaderSource::Wgsl(text.into()),
                },
                checks,
            )
        };
        Ok(Prepared {
            name,
            module,
            constants,
            signature: Signature::of(spec),
        })
    }

    fn create(&self, prepared: &Prepared) -> wgpu::ComputePipeline {
        let layout = self.layout(prepared.signature);
        let descriptor = wgpu::ComputePipelineDescriptor {
            label: Some(&prepared.name),
            layout: Some(&layout.pipeline),
            module: &prepared.module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &prepared.constants,
                zero_initialize_workgroup_memory: false,
            },
            cache: self.cache.as_ref(),
        };
        self.device.create_compute_pipeline(&descriptor)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile(&self, spec: &Specialization) -> Result<Pipeline> {
        let make = || {
            let prepared = self.prepare(spec)?;
            Ok((self.create(&prepared), prepared.signature))
        };
        let (made, error) = scoped(&self.device, wgpu::ErrorFilter::Validation, make);
        if let Some(error) = error {
            return Err(Error::Shader {
                name: spec.name(),
                message: error.to_string(),
            });
        }
        made.map(|(pipeline, signature)| Pipeline {
            pipeline,
            signature,
        })
    }

    /// Compiles beside other pipelines; `createComputePipeline` compiles one after the other.
    #[cfg(target_arch = "wasm32")]
    pub async fn compile(&self, spec: &Specialization) -> Result<Pipeline> {
        let prepared = self.prepare(spec)?;
        let made = browser::create_pipeline_async(|| self.create(&prepared)).await;
        made.map(|pipeline| Pipeline {
            pipeline,
            signature: prepared.signature,
        })
        .map_err(|message| Error::Shader {
            name: prepared.name,
            message,
        })
    }
}

/// What a driver needs to compile a pipeline.
struct Prepared {
    name: String,
    module: wgpu::ShaderModule,
    constants: Vec<(&'static str, f64)>,
    signature: Signature,
}

/// Whether parameters are immediates: only if the device has room for a full slot. Immediates are faster, since a uniform buffer must be
/// written before each submit, which stalls the device.
pub(crate) fn immediates(device: &wgpu::Device) -> bool {
    let there = device.features().contains(wgpu::Features::IMMEDIATES);
    there && u64::from(device.limits().max_immediate_size) >= PARAMS_SLOT
}

fn layout(device: &wgpu::Device, signature: Signature, immediates: bool) -> Layout {
    let entry = |binding, ty, slot: Option<wgpu::BufferSize>| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: slot.is_some(),
            min_binding_size: slot,
        },
        count: None,
    };
    let slot = wgpu::BufferSize::new(PARAMS_SLOT);
    let params = (!immediates).then(|| entry(0, wgpu::BufferBindingType::Uniform, slot));
    let storage = (0..signature.count).map(|i| {
        let read_only = signature.writes >> i & 1 == 0;
        let ty = wgpu::BufferBindingType::Storage { read_only };
        entry(u32::from(i) + 1, ty, None)
    });
    let entries: Vec<_> = params.into_iter().chain(storage).collect();
    let bind_group = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &entries,
    });
    let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&bind_group)],
        immediate_size: if immediates { PARAMS_SLOT as u32 } else { 0 },
    });
    Layout {
        bind_group,
        pipeline,
    }
}

/// The compiler of the WGSL text: naga on native platforms; in a browser the browser's own, assumed to be as strict as Tint.
const TARGET: Target = if cfg!(target_arch = "wasm32") {
    Target::Tint
} else {
    Target::Naga
};
