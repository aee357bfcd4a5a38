//! The program `llama-bench`: each measurement is one line of JSON with sound figures.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::Command;

fn bench(args: &[&str]) -> (bool, Vec<Value>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama-bench"));
    command.args(["--shape", "tiny", "--reps", "2", "--prefill", "16"]);
    command.args(["--context", "4", "--decode", "4", "--json"]);
    let output = command.args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    (output.status.success(), lines.collect())
}

fn check(device: &str, dtype: &str) {
    let (success, lines) = bench(&["--device", device, "--dtype", dtype, "--stats"]);
    assert!(success);
    let tests: Vec<_> = lines.iter().map(|l| l["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["prefill", "decode"]);
    for line in &lines {
        let ms = |key: &str| line["ms"][key].as_f64().unwrap();
        assert!(0. < ms("min") && ms("min") <= ms("median") && ms("median") <= ms("max"));
        assert_eq!(line["device"], device);
        assert_eq!(line["dtype"], dtype);
        if device == "webgpu" {
            assert!(line["stats"]["dispatches"].as_f64().unwrap() > 0.);
            assert_eq!(line["stats"]["readbacks"], 1.);
        }
    }
}

#[test]
fn cpu() {
    check("cpu", "f32");
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpu() {
    for dtype in ["f32", "f16", "bf16"] {
        check("webgpu", dtype);
    }
}

#[test]
fn more_tokens_than_the_context_are_refused() {
    assert!(!bench(&["--device", "cpu", "--prefill", "4096"]).0);
    assert!(!bench(&["--device", "cpu", "--shape", "huge"]).0);
}
