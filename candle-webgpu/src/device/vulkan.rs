//! What only Vulkan offers: the size of an adapter's memory, and a queue that computes, but does not draw. wgpu takes the first queue
//! family, which does both (gfx-rs/wgpu#7766); docs/profile.md#a-queue-that-only-computes says what that costs.

use std::ops::Deref;

use ash::vk;
use wgpu::hal::api::Vulkan;
use wgpu::hal::{Api, OpenDevice};

type Adapter = <Vulkan as Api>::Adapter;

/// The fewest bits of a timestamp that wgpu asks of the first queue family.
const TIMESTAMP_BITS: u32 = 36;

fn of(adapter: &wgpu::Adapter) -> Option<impl Deref<Target = Adapter>> {
    // SAFETY: nothing is destroyed.
    unsafe { adapter.as_hal::<Vulkan>() }
}

/// Bytes of the adapter's own memory.
pub(crate) fn memory(adapter: &wgpu::Adapter) -> Option<u64> {
    let adapter = of(adapter)?;
    let instance = adapter.shared_instance().raw_instance();
    let physical = adapter.raw_physical_device();
    // SAFETY: the physical device is one of this instance.
    let properties = unsafe { instance.get_physical_device_memory_properties(physical) };
    let heaps = properties.memory_heaps_as_slice().iter();
    let own = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    own.map(|heap| heap.size).max()
}

/// The first queue family that computes, but does not draw.
pub(crate) fn compute_queue(adapter: &wgpu::Adapter) -> Option<u32> {
    let adapter = of(adapter)?;
    let instance = adapter.shared_instance().raw_instance();
    let physical = adapter.raw_physical_device();
    // SAFETY: the physical device is one of this instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let only_computes = |family: &vk::QueueFamilyProperties| {
        family.queue_flags.contains(vk::QueueFlags::COMPUTE)
            && !family.queue_flags.contains(vk::QueueFlags::GRAPHICS)
            && family.timestamp_valid_bits >= TIMESTAMP_BITS
    };
    u32::try_from(families.iter().position(only_computes)?).ok()
}

/// [`wgpu::Adapter::request_device`] for a queue of this family. The error is a message.
///
/// wgpu's barriers name the stages of drawing, which such a queue does not have. NVIDIA's driver ignores them; Vulkan's validation
/// layers report them.
pub(crate) fn request_device(
    adapter: &wgpu::Adapter,
    desc: &wgpu::DeviceDescriptor<'_>,
    family: u32,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let opened = {
        let adapter = of(adapter).ok_or("not a Vulkan adapter")?;
        open(&adapter, desc, family)?
    };
    // SAFETY: the device was made from this adapter, with the features of `desc`.
    let made = unsafe { adapter.create_device_from_hal(opened, desc) };
    made.map_err(|e| e.to_string())
}

fn open(
    adapter: &Adapter,
    desc: &wgpu::DeviceDescriptor<'_>,
    family: u32,
) -> Result<OpenDevice<Vulkan>, String> {
    let extensions = adapter.required_device_extensions(desc.required_features);
    let mut features = adapter.physical_device_features(&extensions, desc.required_features);
    let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names);
    let info = features.add_to_device_create(info);
    let instance = adapter.shared_instance().raw_instance();
    // SAFETY: the physical device is one of this instance, and what `info` refers to outlives the call.
    let device = unsafe { instance.create_device(adapter.raw_physical_device(), &info, None) };
    let device = device.map_err(|e| e.to_string())?;
    // SAFETY: the device was made from this adapter, with this family, these extensions and wgpu's features for them. wgpu destroys it.
    let opened = unsafe {
        adapter.device_from_raw(
            device,
            None,
            &extensions,
            desc.required_features,
            &desc.required_limits,
            &desc.memory_hints,
            family,
            0,
        )
    };
    opened.map_err(|e| e.to_string())
}
