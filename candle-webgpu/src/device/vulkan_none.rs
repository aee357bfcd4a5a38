//! [`vulkan`](self) where there is no Vulkan: in browsers and on Apple's systems.

pub(crate) fn memory(_: &wgpu::Adapter) -> Option<u64> {
    None
}

pub(crate) fn compute_queue(_: &wgpu::Adapter) -> Option<u32> {
    None
}

pub(crate) fn request_device(
    _: &wgpu::Adapter,
    _: &wgpu::DeviceDescriptor<'_>,
    _: u32,
) -> Result<(wgpu::Device, wgpu::Queue), String> {
    Err("not a Vulkan adapter".into())
}
