//! wgpu's error scopes, where errors are known at once.

/// Runs `make` in an error scope of wgpu, and gives what it made and the error, if there was one. In browsers the error is known later and
/// comes back from the next readback, so there it is always `None`.
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
