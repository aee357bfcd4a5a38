//! docs/SUPPORT.md: which op takes which dtype on which backend. Every op is tried in every dtype, so a gap cannot be
//! forgotten; the test fails when the file is stale.
//!
//!     UPDATE_GOLDEN=1 cargo test -p candle-webgpu-tests --test support      # writes it anew

mod ids;
mod ops;
mod quant;
mod table;

use std::path::Path;

use anyhow::{ensure, Result};
use candle_core::Device;

const INTRODUCTION: &str = "\
# Which op takes which dtype

Written by `UPDATE_GOLDEN=1 cargo test -p candle-webgpu-tests --test support`; `cargo xtask test conformance` fails when
it is stale.

`W` WebGPU (this repository), `C` CPU, `N` CUDA, `M` Metal (upstream's backends, candle 0.11.1), `-` missing. A small
letter gives an answer, but another one than f32 gives: the CPU's `gelu`, `gelu_erf`, `erf` and `silu` of integers are 0,
and so is its average of integers, as on WebGPU.

WebGPU and CPU are found by trying: each op runs in each dtype on a small tensor, and its values are compared with those
in f32 on the CPU, where it has the op. Whether they are right to the last place for every layout and special value is the
conformance suite's matter.
What is missing on WebGPU is an error that names op and dtype; on the CPU it is an error or a panic. CUDA and Metal are
found by reading the dtypes that candle-core, candle-nn, candle-kernels and candle-metal-kernels have kernels for; no
such device was used. CUDA's f16 needs compute capability 5.3, its bf16 8.0.

Quantizing is the CPU's on all four, as is much of dequantizing on CUDA (f32, f16, bf16, q8_1) and all of it on Metal. `QMatMul`
unpacks f32, f16 and bf16 when it is made. Quantized products take activations in bf16, f16 and f32, on Metal in f32.
";

#[test]
fn support_table_is_current() -> Result<()> {
    let webgpu = Device::new_webgpu(0)?;
    let hook = std::panic::take_hook();
    // The CPU panics where it lacks an op.
    std::panic::set_hook(Box::new(|_| {}));
    let tables = [
        ops::table().markdown(&webgpu),
        ops::fused().markdown(&webgpu),
        ids::casts().markdown(&webgpu),
        ids::table().markdown(&webgpu),
        quant::table().markdown(&webgpu),
    ];
    std::panic::set_hook(hook);
    let mut text = INTRODUCTION.to_string();
    for table in tables {
        text += &format!("\n{}", table?);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SUPPORT.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return Ok(std::fs::write(path, text)?);
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> = text.lines().filter(|l| !written.contains(l)).collect();
    ensure!(
        text == written,
        "docs/SUPPORT.md is stale, run with UPDATE_GOLDEN=1: {changed:#?}"
    );
    Ok(())
}
