//! What kind of adapter a device is.

use candle_core::Device;

/// Whether this is a WebGPU software adapter.
#[cfg(feature = "webgpu")]
pub fn is_software(device: &Device) -> bool {
    let device = device.as_webgpu_device();
    device.is_ok_and(|device| device.adapter().kind == "software")
}

/// Whether this is a WebGPU software adapter.
#[cfg(not(feature = "webgpu"))]
pub fn is_software(_: &Device) -> bool {
    false
}
