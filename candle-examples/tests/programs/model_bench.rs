//! The program `model-bench`: a line of JSON with plausible figures, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-bench"));
    command.args(args).output().unwrap()
}

#[test]
fn a_small_model() {
    let few = ["--warmup", "1", "--passes", "2", "--json"];
    let output = bench(&[&["all-minilm-l6", "--device", "cpu"], &few[..]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ms = |key: &str| line["ms"][key].as_f64().unwrap();
    assert!(0. < ms("min") && ms("min") <= ms("median") && ms("median") <= ms("max"));
    assert_eq!(
        [&line["model"], &line["dtype"], &line["device"]],
        ["all-minilm-l6", "f32", "cpu"]
    );
}

#[test]
fn the_list_names_what_it_takes() {
    let list = String::from_utf8(bench(&["--list"]).stdout).unwrap();
    let names = list.lines().filter_map(|line| line.split(' ').next());
    let refused = bench(&["llama"]);
    assert!(!refused.status.success());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("not one of"), "{message}");
    for name in names {
        assert!(message.contains(name), "{name}: {message}");
    }
}
