//! naga's SPIR-V, HLSL and MSL of a shader, as wgpu asks for them.

use anyhow::{anyhow, Context, Result};
use naga::back::{hlsl, msl, pipeline_constants, spv, PipelineConstants};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess};

use crate::shader::Shader;

const ENTRY: &str = "main";

/// As candle-webgpu runs its shaders.
const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// The declaration of the parameters, as a uniform buffer and as immediates.
const PARAMS: [&str; 2] = [
    "@group(0) @binding(0) var<uniform> p: Params;",
    "var<immediate> p: Params;",
];

/// A valid module whose constants have their values.
pub struct Translated {
    module: Module,
    info: ModuleInfo,
    /// The highest binding of a storage buffer.
    pub bindings: u32,
}

impl Translated {
    /// `immediates`: parameters are immediates, as on adapters with 256 bytes of them.
    pub fn new(shader: &Shader, immediates: bool) -> Result<Self> {
        let mut text = shader.text()?;
        if immediates {
            text = text.replace(PARAMS[0], PARAMS[1]);
        }
        let show = |error: String| anyhow!(error);
        let module = naga::front::wgsl::parse_str(&text);
        let module = module.map_err(|e| show(e.emit_to_string(&text)))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
        let info = info.map_err(|e| show(e.emit_to_string(&text)))?;
        let constants: PipelineConstants = shader.constants.iter().cloned().collect();
        let entry = Some((ShaderStage::Compute, ENTRY));
        let (module, info) =
            pipeline_constants::process_overrides(&module, &info, entry, &constants)?;
        let storage = module.global_variables.iter().filter_map(|(_, var)| {
            let storage = matches!(var.space, AddressSpace::Storage { .. });
            var.binding.filter(|_| storage).map(|b| b.binding)
        });
        let bindings = storage.max().unwrap_or(0);
        Ok(Translated {
            module: module.into_owned(),
            info: info.into_owned(),
            bindings,
        })
    }

    pub fn spirv(&self) -> Result<Vec<u32>> {
        let options = spv::Options {
            lang_version: (1, 6),
            flags: spv::WriterFlags::empty(),
            bounds_check_policies: UNCHECKED,
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
            force_loop_bounding: false,
            ..Default::default()
        };
        let entry = spv::PipelineOptions {
            shader_stage: ShaderStage::Compute,
            entry_point: ENTRY.into(),
        };
        spv::write_vec(&self.module, &self.info, &options, Some(&entry)).context("SPIR-V")
    }

    pub fn hlsl(&self) -> Result<String> {
        let target = |register| hlsl::BindTarget {
            register,
            ..Default::default()
        };
        let mut binding_map = hlsl::BindingMap::default();
        // Registers of constant buffers, of buffers that are read, and of those that are written.
        let mut next = [0; 3];
        for (_, var) in self.module.global_variables.iter() {
            let kind = match var.space {
                AddressSpace::Uniform => 0,
                AddressSpace::Storage { access } => {
                    1 + usize::from(access.contains(StorageAccess::STORE))
                }
                _ => continue,
            };
            let binding = var.binding.context("a buffer without a binding")?;
            binding_map.insert(binding, target(next[kind]));
            next[kind] += 1;
        }
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_2,
            binding_map,
            fake_missing_bindings: false,
            special_constants_binding: Some(hlsl::BindTarget {
                space: 1,
                ..Default::default()
            }),
            zero_initialize_workgroup_memory: false,
            restrict_indexing: false,
            force_loop_bounding: false,
            ..Default::default()
        };
        let entry = hlsl::PipelineOptions {
            entry_point: Some((ShaderStage::Compute, ENTRY.into())),
        };
        let mut text = String::new();
        let mut writer = hlsl::Writer::new(&mut text, &options, &entry);
        writer
            .write(&self.module, &self.info, None)
            .context("HLSL")?;
        Ok(text)
    }

    pub fn msl(&self) -> Result<String> {
        let mut resources = msl::EntryPointResources::default();
        for (slot, (_, var)) in (0..).zip(self.module.global_variables.iter()) {
            let Some(binding) = var.binding else { continue };
            let written = matches!(var.space, AddressSpace::Storage { access } if access.contains(StorageAccess::STORE));
            let target = msl::BindTarget {
                buffer: Some(slot),
                mutable: written,
                ..Default::default()
            };
            resources.resources.insert(binding, target);
        }
        // After the 30 buffers of a kernel.
        resources.sizes_buffer = Some(30);
        let options = msl::Options {
            lang_version: (3, 0),
            per_entry_point_map: [(ENTRY.to_owned(), resources)].into_iter().collect(),
            fake_missing_bindings: false,
            bounds_check_policies: UNCHECKED,
            zero_initialize_workgroup_memory: false,
            force_loop_bounding: false,
            ..Default::default()
        };
        let entry = msl::PipelineOptions {
            entry_point: Some((ShaderStage::Compute, ENTRY.into())),
            ..Default::default()
        };
        let (text, info) =
            msl::write_string(&self.module, &self.info, &options, &entry).context("MSL")?;
        for name in info.entry_point_names {
            name.context("MSL")?;
        }
        Ok(text)
    }
}
