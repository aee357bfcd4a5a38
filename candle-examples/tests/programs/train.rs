//! The program `train`: the loss falls, and equally on both devices.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::Command;

fn train(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_train"));
    let output = command.args(args).arg("--json").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn losses(line: &Value, key: &str) -> Vec<f64> {
    let losses = line[key].as_array().unwrap().iter();
    losses.map(|l| l.as_f64().unwrap()).collect()
}

#[test]
fn the_loss_falls_and_is_plotted() {
    let dir = tempfile::tempdir().unwrap();
    let plot = dir.path().join("loss.svg");
    let file = plot.to_str().unwrap();
    let args = ["--device", "cpu", "--steps", "20", "--sample", "10"];
    let line = train(&[&args[..], &["--plot", file]].concat());
    let losses = losses(&line, "losses");
    assert_eq!(losses.len(), 20);
    assert!(losses[19] < 0.8 * losses[0], "{losses:?}");
    assert_eq!(line["sample"].as_str().unwrap().chars().count(), 10);
    assert!(std::fs::read_to_string(plot).unwrap().contains("<svg"));
}

/// Rounding differences grow with the steps, as in any training; the bound holds for twenty.
#[cfg(feature = "webgpu")]
#[test]
fn webgpu_learns_what_the_cpu_learns() {
    let line = train(&["--device", "webgpu", "--steps", "20", "--compare"]);
    let cpu = losses(&line, "losses_cpu");
    assert!(cpu[19] < 0.8 * cpu[0], "{cpu:?}");
    let difference = line["largest_difference"].as_f64().unwrap();
    assert!(difference < 1e-3, "{difference:e}");
}
