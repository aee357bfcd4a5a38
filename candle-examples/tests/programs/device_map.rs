//! The program `device-map`: for any distribution of layers, the text is that of `llama` on one device.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::{json, Value};
use std::path::Path;
use std::process::{Command, Output};

use crate::tiny;

fn run(program: &str, model: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("--model").arg(model).args(args);
    command.output().unwrap()
}

fn ids(output: &Output) -> (Value, Value) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    (line["ids"].clone(), line["parts"].clone())
}

const MAP: &str = env!("CARGO_BIN_EXE_device-map");
const LLAMA: &str = env!("CARGO_BIN_EXE_llama");

/// Compares `llama` on the CPU with `device-map` on each list of devices.
fn same_on(model: &Path, more: &[&str], lists: &[&str]) {
    let common = [&["--json", "-n", "24", "some words"], more].concat();
    let alone = [&common[..], &["--device", "cpu", "--temperature", "0"]].concat();
    let (expected, _) = ids(&run(LLAMA, model, &alone));
    assert_eq!(expected.as_array().unwrap().len(), 24);
    for list in lists {
        let args = [&common[..], &["--devices", list]].concat();
        let (got, parts) = ids(&run(MAP, model, &args));
        assert_eq!(got, expected, "{list}");
        assert_eq!(parts.as_array().unwrap().len(), list.split(',').count());
    }
}

/// An adapter named twice opens two devices.
#[cfg(feature = "webgpu")]
const LISTS: [&str; 5] = [
    "cpu",
    "cpu,cpu",
    "webgpu,webgpu",
    "webgpu,cpu",
    "cpu,webgpu",
];
#[cfg(not(feature = "webgpu"))]
const LISTS: [&str; 2] = ["cpu", "cpu,cpu"];

#[test]
fn the_text_is_that_of_one_device() {
    let dir = tempfile::tempdir().unwrap();
    same_on(&tiny::model(dir.path()), &[], &LISTS);
}

#[test]
fn a_folder_of_safetensors_too() {
    let dir = tempfile::tempdir().unwrap();
    // Also writes a tokenizer, which serves here too.
    tiny::model(dir.path());
    let tokenizer = dir.path().join("tokenizer.bin");
    let tokenizer = ["--tokenizer", tokenizer.to_str().unwrap()];
    same_on(&tiny::folder(dir.path(), json!({})), &tokenizer, &LISTS);
}

#[test]
fn angles_that_are_scaled_too() {
    let dir = tempfile::tempdir().unwrap();
    tiny::model(dir.path());
    let scaling = json!({
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16, "rope_type": "llama3",
    });
    let folder = tiny::folder(dir.path(), json!({ "rope_scaling": scaling }));
    let tokenizer = dir.path().join("tokenizer.bin");
    let tokenizer = ["--tokenizer", tokenizer.to_str().unwrap()];
    same_on(&folder, &tokenizer, &["cpu,cpu"]);
}

#[test]
fn errors_are_one_message_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    for (args, says) in [
        (&["--devices", "cpu,gpu"][..], "not one of cpu, webgpu"),
        (&["--devices", "webgpu:one"], "`one` is no number"),
        (&["--devices", "cpu:0"], "not one of cpu, webgpu"),
        (
            &["--devices", "cpu,cpu,cpu"],
            "2 layers leave none for one of 3",
        ),
        (&["--devices", "cpu,cpu", "--layers", "2"], "1 numbers"),
        (
            &["--devices", "cpu,cpu", "--layers", "2,1"],
            "the model has 2",
        ),
        (&["--devices", "cpu,cpu", "--layers", "2,0"], "leave none"),
        #[cfg(not(feature = "cuda"))]
        (&["--devices", "cuda:0"], "without `cuda`"),
    ] {
        let output = run(MAP, &model, args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(
            message.contains(says) && !message.contains("panicked"),
            "{message}"
        );
    }
}

#[cfg(feature = "webgpu")]
#[test]
fn adapters_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny::model(dir.path());
    let said = |adapter: &str| {
        let mut command = Command::new(MAP);
        command.arg("--model").arg(&model);
        command.args(["--devices", "webgpu:99"]);
        command.env("CANDLE_WEBGPU_ADAPTER", adapter);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let message = said("");
    assert!(
        message.contains("no WebGPU adapter has index 99; found: 0: "),
        "{message}"
    );
    assert!(said("any").contains("use `webgpu`, or unset"));
}
