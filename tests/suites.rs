//! Upstream's CPU test programs on the WebGPU device. `build.rs` lists and copies them.
//!
//!     cargo test -p candle-webgpu-tests --test suites [-- FILTER]
//!
//! Known failures are listed in known_upstream.txt, which `cargo xtask test upstream` reads.

// candle-nn's tests use this name.
extern crate candle_core as candle;

/// Replaces `Device::Cpu`.
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
