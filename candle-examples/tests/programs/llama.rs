//! The program `llama` from its command line to its text, with a small generated model.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

use candle_core::Device;
use candle_examples::files;
use candle_examples::generate::Causal;
use candle_examples::model::Loaded;

use crate::tiny::{folder, model};

fn llama(model: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama"));
    command.arg("--model").arg(model).args(args);
    command.output().unwrap()
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const GREEDY: [&str; 5] = ["--temperature", "0", "--json", "-n", "24"];

fn greedy(model: &Path, device: &str) -> Value {
    let args = [&GREEDY[..], &["--device", device, "some words"]].concat();
    json(&llama(model, &args))
}

#[test]
fn json_is_one_line_with_everything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let line = greedy(&model, "cpu");
    assert_eq!(line["device"], "cpu");
    assert_eq!(line["dtype"], "f32");
    assert_eq!(line["prompt_ids"].as_array().unwrap().len(), 12);
    assert_eq!(line["ids"].as_array().unwrap().len(), 24);
    for figure in ["load_ms", "ttft_ms", "prompt_tok_s", "decode_tok_s"] {
        assert!(line[figure].as_f64().is_some_and(|f| f > 0.), "{figure}");
    }
}

#[test]
fn equal_seeds_give_equal_texts() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let run = |seed| {
        json(&llama(
            &model,
            &["--device", "cpu", "--json", "--seed", seed],
        ))
    };
    assert_eq!(run("1")["ids"], run("1")["ids"]);
    assert_ne!(run("1")["ids"], run("2")["ids"]);
}

#[test]
fn a_prompt_does_not_see_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    // Also writes a tokenizer, which serves here too.
    model(dir.path());
    let tokenizer = dir.path().join("tokenizer.bin");
    let folder = folder(dir.path(), serde_json::json!({}));
    let found = files::locate(folder.to_str().unwrap(), Some(&tokenizer)).unwrap();
    let mut loaded = files::load(&found, None, 64, &Device::Cpu).unwrap();
    let logits = |loaded: &mut Loaded, ids: &[u32]| {
        let logits = loaded.model.forward(ids, 0, &Device::Cpu).unwrap();
        logits.to_vec1::<f32>().unwrap()
    };
    let first = logits(&mut loaded, &[1, 2, 3]);
    let other = logits(&mut loaded, &[4, 5]);
    assert_ne!(other, first);
    assert_eq!(logits(&mut loaded, &[1, 2, 3]), first);
}

#[test]
fn the_context_ends_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let args = [
        "--device",
        "cpu",
        "--json",
        "-n",
        "999",
        "--repeat-penalty",
        "1.1",
    ];
    let line = json(&llama(&model, &args));
    let [ids, prompt] = ["ids", "prompt_ids"].map(|key| line[key].as_array().unwrap().len());
    assert!(line["stop"] == "end" || ids + prompt == 65, "{line}");
}

#[cfg(feature = "webgpu")]
#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama"));
    command.arg("--model").arg(&model);
    command.args(["--device", "webgpu", "-n", "24"]);
    command.env("CANDLE_WEBGPU_MEMORY_LIMIT", "64K");
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for part in [
        "does not fit",
        "weights",
        "12.00 KiB for a KV cache of 24 tokens",
        "64.00 KiB",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn errors_are_one_message_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let long = "word ".repeat(100);
    let failing = |args: &[&str]| {
        let output = llama(&model, &[&["--device", "cpu"], args].concat());
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(failing(&[&long]).contains("context only 64"));
    assert!(failing(&["--tokenizer", "nowhere.json"]).contains("tokenizer not found"));
    let bytes = std::fs::read(&model).unwrap();
    std::fs::write(&model, &bytes[..bytes.len() / 2]).unwrap();
    let message = failing(&[]);
    assert!(message.contains("truncated") && !message.contains("panicked"));
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpu_says_what_the_cpu_says() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let webgpu = greedy(&model, "webgpu");
    assert_eq!(webgpu["ids"], greedy(&model, "cpu")["ids"]);
    assert!(webgpu["adapter"].is_string());
}

#[test]
#[ignore = "downloads 112 MB unless stories15m is cached"]
fn stories15m_tells_its_story() {
    let devices = if cfg!(feature = "webgpu") {
        &["cpu", "webgpu"][..]
    } else {
        &["cpu"]
    };
    for device in devices {
        let args = [&GREEDY[..], &["--device", device, "Once upon a time"]].concat();
        let line = json(&llama(Path::new("stories15m"), &args));
        let text = line["text"].as_str().unwrap();
        assert!(
            text.starts_with(", there was a little girl named Lily."),
            "{text}"
        );
    }
}
