//! Upstream's test programs that name the CPU, on the WebGPU device. `build.rs` lists them and writes their twins.
//!
//!     cargo test -p candle-webgpu-tests --test suites [-- FILTER]
//!
//! Failures that are known stand in known_upstream.txt, which `cargo xtask test upstream` reads.

// The name under which candle-nn knows it.
extern crate candle_core as candle;

/// What `Device::Cpu` has become.
fn device() -> candle::Device {
    candle::Device::new_webgpu(0).expect("a WebGPU device")
}

/// Tells `cargo xtask test` the adapter; libtest captures only what the print macros write.
#[test]
fn adapter() -> std::io::Result<()> {
    use std::io::Write;
    let device = device();
    let device = device.as_webgpu_device().map_err(std::io::Error::other)?;
    writeln!(std::io::stdout(), "\nadapter: {}", device.adapter().name)
}

#[allow(
    clippy::all,
    clippy::unwrap_used,
    unexpected_cfgs,
    unused_imports,
    reason = "the text is upstream's"
)]
mod upstream {
    include!(concat!(env!("OUT_DIR"), "/suites.rs"));
}
