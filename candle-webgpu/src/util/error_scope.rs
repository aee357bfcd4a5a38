//! wgpu's error scopes.

/// Runs `make` in an error scope and returns its result and the error, if any. In a browser the error is always `None`: browsers report
/// errors later, and the next readback returns them.
pub(crate) fn scoped<T>(
    device: &wgpu::Device,
    filter: wgpu::ErrorFilter,
    make: impl FnOnce() -> T,
) -> (T, Option<wgpu::Error>) {
    if cfg!(target_arch = "wasm32") {
        return (make(), None);
    }
    let scope = device.push_error_scope(filter);
    let made = make();
    (made, pollster::block_on(scope.pop()))
}
