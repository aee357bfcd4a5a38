//! Copies of upstream's CPU test programs with the device replaced. Each build writes them from the forked crates'
//! trees, since this repository keeps no upstream text; `suites.rs` runs them.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A program's folder, its name, and how often it says `Device::Cpu`. Any other count is an error, so that a new
/// upstream release cannot leave a copy on the CPU.
#[rustfmt::skip]
const SUITES: &[(&str, &str, usize)] = &[
    ("candle-core", "indexing_tests",          4),
    ("candle-nn",   "batch_norm",              6),
    ("candle-nn",   "bf16_cpu_ops",            2),
    ("candle-nn",   "group_norm",              1),
    ("candle-nn",   "kv_cache",               16),
    ("candle-nn",   "layer_norm",              4),
    ("candle-nn",   "loss",                    3),
    ("candle-nn",   "one_hot",                 4),
    ("candle-nn",   "optim",                  18),
    ("candle-nn",   "rnn",                     2),
    ("candle-nn",   "varlen_flash_attention",  5),
];

/// Longer spellings first.
const NAMES_OF_THE_CPU: [&str; 2] = ["candle::Device::Cpu", "Device::Cpu"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut modules = String::new();
    for &(folder, name, expected) in SUITES {
        let source = root.join(format!("{folder}/tree/tests/{name}.rs"));
        println!("cargo::rerun-if-changed={}", source.display());
        let text = fs::read_to_string(&source).map_err(|e| format!("{}: {e}", source.display()))?;
        let copy = NAMES_OF_THE_CPU
            .iter()
            .fold(text, |text, cpu| text.replace(cpu, "crate::device()"));
        let found = copy.matches("crate::device()").count();
        if found != expected {
            let path = source.display();
            return Err(format!("{path} names the CPU {found} times, not {expected}").into());
        }
        let path = out.join(format!("{name}.rs"));
        fs::write(&path, copy)?;
        modules += &format!("#[path = {path:?}]\nmod {name};\n");
    }
    fs::write(out.join("suites.rs"), modules)?;
    Ok(())
}
