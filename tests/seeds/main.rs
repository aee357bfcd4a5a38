//! Runs the targets of fuzz/ on their initial inputs and on earlier findings, as plain tests.
//!
//!     cargo test -p candle-webgpu-tests --test seeds -- --ignored     writes the first ones again

#[path = "../gguf/family.rs"]
#[allow(dead_code, reason = "its facts about logits are for tests/gguf")]
mod family;
mod make;
#[allow(dead_code, reason = "only tests/dispatches counts")]
#[path = "../zoo/passes.rs"]
mod passes;
#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};

fn folder(target: &str) -> PathBuf {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    seeds.join(target)
}

/// One test, since the target `layouts` sets environment variables.
#[test]
fn all() -> Result<()> {
    let mut failed = Vec::new();
    for (name, target) in targets::TARGETS {
        let folder = folder(name);
        let files = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut count = 0;
        for file in files {
            let path = file?.path();
            let bytes = std::fs::read(&path)?;
            if catch_unwind(|| target(&bytes)).is_err() {
                failed.push(path);
            }
            count += 1;
        }
        ensure!(count > 0, "{name} has no seeds");
    }
    ensure!(failed.is_empty(), "{failed:?}");
    Ok(())
}

#[test]
#[ignore = "writes into fuzz/seeds"]
fn write() -> Result<()> {
    for (target, name, bytes) in make::all()? {
        let folder = folder(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
