//! AMD's compiler in Mesa (ACO), on RADV's null device: `RADV_FORCE_FAMILY` names a GPU that need not be present. The driver makes real
//! pipelines and reports their registers, spills, workgroup memory and waves.

use std::ffi::{c_char, CStr};
use std::ops::RangeInclusive;

use anyhow::{bail, Context, Result};
use ash::{khr, vk};

use crate::compiler::Statistics;
use crate::shader::Shader;
use crate::translate::Translated;

const AMD: u32 = 0x1002;
/// Code of this many bytes only ends the program: the driver has dropped a shader that the GPU cannot run.
const EMPTY: u64 = 12;

pub struct Radv {
    pub name: String,
    /// Has cooperative matrices.
    cooperative: bool,
    /// Asked for in pipelines that use subgroups.
    subgroup: Option<u32>,
    /// Sizes that subgroups may have.
    subgroups: RangeInclusive<u32>,
    device: ash::Device,
    executables: khr::pipeline_executable_properties::Device,
    // The driver's library stays open as long as the device.
    _instance: ash::Instance,
    _entry: ash::Entry,
}

fn text(name: &[c_char]) -> String {
    let bytes = name.iter().take_while(|c| **c != 0).map(|c| *c as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

impl Radv {
    pub fn open(subgroup: Option<u32>) -> Result<Self> {
        // SAFETY: the system's Vulkan loader is trusted, and outlives everything made from it.
        let entry = unsafe { ash::Entry::load() }.context("no Vulkan loader")?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures are valid.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is valid, as in the calls below.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let of = |gpu: &vk::PhysicalDevice| {
            // SAFETY: as above.
            unsafe { instance.get_physical_device_properties(*gpu) }
        };
        let gpu = all.into_iter().find(|gpu| of(gpu).vendor_id == AMD);
        let gpu = gpu.context("the loader lists no AMD GPU: VK_DRIVER_FILES must name RADV")?;
        let properties = of(&gpu);
        let version = properties.driver_version;
        let name = format!(
            "{}, Mesa {}.{}.{}",
            text(&properties.device_name),
            vk::api_version_major(version),
            vk::api_version_minor(version),
            vk::api_version_patch(version)
        );
        // SAFETY: as above.
        let extensions = unsafe { instance.enumerate_device_extension_properties(gpu) }?;
        let has = |wanted: &CStr| {
            let mut names = extensions.iter().map(|e| text(&e.extension_name));
            names.any(|name| name.as_bytes() == wanted.to_bytes())
        };
        let cooperative = has(khr::cooperative_matrix::NAME);
        let mut enabled = vec![khr::pipeline_executable_properties::NAME.as_ptr()];
        let mut coop = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut executables)
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13);
        if cooperative {
            enabled.push(khr::cooperative_matrix::NAME.as_ptr());
            features = features.push_next(&mut coop);
        }
        // SAFETY: the chain is valid. All features of the GPU are turned on.
        unsafe { instance.get_physical_device_features2(gpu, &mut features) };
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut asked = vk::PhysicalDeviceProperties2::default().push_next(&mut sizes);
        // SAFETY: as above.
        unsafe { instance.get_physical_device_properties2(gpu, &mut asked) };
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&enabled)
            .push_next(&mut features);
        // SAFETY: as above.
        let device = unsafe { instance.create_device(gpu, &info, None) }?;
        Ok(Radv {
            name,
            cooperative,
            subgroup,
            subgroups: sizes.min_subgroup_size..=sizes.max_subgroup_size,
            executables: khr::pipeline_executable_properties::Device::new(&instance, &device),
            device,
            _instance: instance,
            _entry: entry,
        })
    }

    /// Whether the GPU has the features of a shader, and subgroups of the size asked for.
    pub fn has(&self, shader: &Shader) -> bool {
        let cooperative = shader.cooperative.is_none() || self.cooperative;
        let asked = self.subgroup.filter(|_| shader.subgroups);
        cooperative && asked.is_none_or(|size| self.subgroups.contains(&size))
    }

    /// Makes a pipeline as wgpu does. None if its code is empty.
    pub fn compile(&self, shader: &Translated, subgroups: bool) -> Result<Option<Statistics>> {
        let code = shader.spirv()?;
        let module = vk::ShaderModuleCreateInfo::default().code(&code);
        let bindings: Vec<_> = (1..=shader.bindings)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is valid and the structures outlive their calls. Objects are freed with the worker process; it makes
        // some thousand of them at most.
        unsafe {
            let module = self.device.create_shader_module(&module, None)?;
            let sets = [self.device.create_descriptor_set_layout(&set, None)?];
            let constants = [vk::PushConstantRange::default()
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                .size(256)];
            let layout = vk::PipelineLayoutCreateInfo::default()
                .set_layouts(&sets)
                .push_constant_ranges(&constants);
            let layout = self.device.create_pipeline_layout(&layout, None)?;
            let mut stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
            match self.subgroup.filter(|_| subgroups) {
                Some(asked) => {
                    size.required_subgroup_size = asked;
                    stage = stage.push_next(&mut size);
                }
                None => {
                    stage.flags = vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE
                }
            }
            let info = vk::ComputePipelineCreateInfo::default()
                .flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)
                .layout(layout)
                .stage(stage);
            let made =
                self.device
                    .create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            let pipeline = made.map_err(|(_, error)| error)?[0];
            let statistics = self.statistics(pipeline)?;
            self.device.destroy_pipeline(pipeline, None);
            self.device.destroy_shader_module(module, None);
            let size = statistics.iter().find(|(name, _)| name == "Code size");
            Ok(size
                .is_none_or(|(_, bytes)| *bytes > EMPTY)
                .then_some(statistics))
        }
    }

    fn statistics(&self, pipeline: vk::Pipeline) -> Result<Statistics> {
        let of = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline is valid, and was made with statistics.
        let executables = unsafe { self.executables.get_pipeline_executable_properties(&of) }?;
        let Some(executable) = executables.first() else {
            bail!("a pipeline without code");
        };
        let first = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        // SAFETY: as above.
        let all = unsafe { self.executables.get_pipeline_executable_statistics(&first) }?;
        let size = ("Subgroup size".to_owned(), executable.subgroup_size.into());
        let integer = |s: &vk::PipelineExecutableStatisticKHR<'_>| {
            let is_integer = s.format == vk::PipelineExecutableStatisticFormatKHR::UINT64;
            // SAFETY: `format` says which field is set.
            is_integer.then(|| (text(&s.name), unsafe { s.value.u64 }))
        };
        Ok([size]
            .into_iter()
            .chain(all.iter().filter_map(integer))
            .collect())
    }
}
