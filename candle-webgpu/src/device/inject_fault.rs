//! Injects faults for tests. Not part of the public API.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::executor::wait::poll;
use crate::kernel::copy::FILL;
use crate::recorder::op::NewOp;
use crate::shader::{Access, Specialization};
use crate::util::lock;

/// Loses the device, as a driver update or the removal of the GPU does.
pub fn destroy(device: &Device) {
    device.executor().device.destroy();
}

/// Records a dispatch that wgpu rejects: a grid larger than the limit.
pub fn invalid_dispatch(device: &Device) -> Result<()> {
    let y = device.output("inject_fault", 64, DType::F32)?;
    let spec = Specialization::new(&FILL, "", &[(DType::U32, Access::Put)]);
    let most = device.limits().max_compute_workgroups_per_dimension;
    lock(&device.pending).push(NewOp {
        spec,
        operands: &[(&y).into()],
        params: bytemuck::cast_slice(&[64u32, 0, 0, 0]),
        grid: [most + 1, 1, 1],
        run: None,
    });
    Ok(())
}

/// Waits for the adapter, even if the device has failed. A process that exits while llvmpipe (Mesa 22.3.6) computes may crash, since its
/// threads still run while their code is unloaded.
pub fn drain(device: &Device) {
    let _ = poll(&device.executor().device, None, None);
}
