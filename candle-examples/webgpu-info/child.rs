//! This program again, in a process of its own.

use anyhow::{bail, Context, Result};
use candle_examples::device::DeviceArgs;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs this program with `args` and variables of the environment; what it prints is JSON. The error says how it ended.
pub fn run<T: DeserializeOwned>(
    wanted: &DeviceArgs,
    args: &[&str],
    vars: &BTreeMap<&str, &str>,
    limit: Duration,
) -> Result<T> {
    // Not pipes, which a driver with much to say would fill.
    let dir = tempfile::tempdir()?;
    let [said, printed] = ["said", "printed"].map(|name| dir.path().join(name));
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(args)
        .args(wanted.adapter.iter().flat_map(|name| ["--adapter", name]))
        .envs(vars)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&printed)?)
        .stderr(std::fs::File::create(&said)?);
    let mut child = command.spawn()?;
    if !ends(&mut child, limit)? {
        bail!("did not end within {} s", limit.as_secs());
    }
    let status = child.wait()?;
    if !status.success() {
        let said = std::fs::read(said)?;
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().last().unwrap_or_default();
        bail!("ended with {status}: {last}");
    }
    serde_json::from_slice(&std::fs::read(printed)?).context("what it printed")
}

/// Waits for a process; ends it if it takes longer than `limit`.
fn ends(child: &mut Child, limit: Duration) -> Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
