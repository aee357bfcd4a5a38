//! The program `bert`, with the real model.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::Command;

fn bert(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bert"));
    command.args(args).output().unwrap()
}

/// The default sentences are about food, bread and a monkey.
#[test]
#[ignore = "downloads 84 MB unless all-minilm-l6-v2 is cached"]
fn bread_is_food_and_monkey_is_not() {
    let devices = if cfg!(feature = "webgpu") {
        &["cpu", "webgpu"][..]
    } else {
        &["cpu"]
    };
    for device in devices {
        let output = bert(&["--json", "--device", device]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        let cosine = |i: usize, j: usize| line["cosines"][i][j].as_f64().unwrap();
        for (i, j, expected) in [(0, 0, 1.), (0, 1, 0.755), (0, 2, 0.048), (1, 0, 0.755)] {
            let got = cosine(i, j);
            assert!((got - expected).abs() < 1e-3, "{device}: {i} {j}: {got}");
        }
    }
}

#[test]
fn an_unknown_model_is_one_message_and_no_panic() {
    let output = bert(&["--device", "cpu", "--model", "nothing"]);
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("all-minilm-l6-v2") && !message.contains("panicked"));
}
