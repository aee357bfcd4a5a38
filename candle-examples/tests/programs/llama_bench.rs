//! The program `llama-bench`: each measurement is a line of JSON with plausible figures.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama-bench"));
    command.args(["--reps", "2", "--decode", "4", "--json"]);
    command.args(args).output().unwrap()
}

/// Both measurements; checks that their figures are plausible.
fn measure(device: &str, args: &[&str]) -> Vec<Value> {
    let few = ["--shape", "tiny", "--prefill", "16", "--context", "4"];
    let output = bench(&[&few[..], &["--device", device, "--stats"], args].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    let lines: Vec<Value> = lines.collect();
    let tests: Vec<_> = lines.iter().map(|l| l["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["prefill", "decode"]);
    for line in &lines {
        let ms = |key: &str| line["ms"][key].as_f64().unwrap();
        assert!(0. < ms("min") && ms("min") <= ms("median") && ms("median") <= ms("max"));
        assert_eq!(line["device"], device);
        if device == "webgpu" {
            assert!(line["stats"]["dispatches"].as_f64().unwrap() > 0.);
            assert_eq!(line["stats"]["readbacks"], 1.);
        }
    }
    lines
}

/// Each count of sequences after each prompt; tokens of all sequences count.
#[test]
fn batches_and_contexts() {
    let lists = ["--context", "4,9", "--batch", "1,3", "--prefill", "0"];
    let output = bench(&[&["--shape", "tiny", "--device", "cpu"], &lists[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    let rows =
        lines.map(|l: Value| ["batch", "context", "tokens"].map(|key| l[key].as_u64().unwrap()));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows, [[1, 4, 4], [1, 9, 4], [3, 4, 12], [3, 9, 12]]);
    refused(&["--device", "cpu", "--batch", "0"], "no sequence");
    let quantized = ["--device", "cpu", "--quant", "q4_0", "--batch", "1,2"];
    refused(&quantized, "one sequence at a time");
}

/// `--check` finds the logits of one device close to the CPU's, for dense and quantized weights.
fn check_logits(device: &str) {
    let few = [
        "--shape",
        "tiny",
        "--prefill",
        "40",
        "--context",
        "4",
        "--check",
    ];
    for (what, most) in [(["--dtype", "f32"], 1e-3), (["--quant", "q8_0"], 0.1)] {
        let output = bench(&[&few[..], &["--device", device], &what].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
        let logits: Vec<Value> = lines.filter(|l: &Value| l["test"] == "logits").collect();
        let decoded: Vec<_> = logits
            .iter()
            .map(|l| l["after_decoding"].as_bool())
            .collect();
        assert_eq!(decoded, [Some(false), Some(true)]);
        for line in logits {
            let off = line["most_off"].as_f64().unwrap();
            assert!(off < most, "{line}");
        }
    }
}

#[test]
fn logits_cpu() {
    check_logits("cpu");
}

#[cfg(feature = "webgpu")]
#[test]
fn logits_webgpu() {
    check_logits("webgpu");
}

fn check(device: &str, dtype: &str) {
    let lines = measure(device, &["--dtype", dtype]);
    assert!(lines.iter().all(|line| line["dtype"] == dtype));
    assert!(lines.iter().all(|line| line["quant"].is_null()));
}

#[test]
fn cpu() {
    check("cpu", "f32");
}

fn check_startup(device: &str) {
    let few = ["--shape", "tiny", "--prefill", "16", "--context", "4"];
    let output = bench(&[&few[..], &["--device", device, "--startup"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ms = |key: &str| line[key].as_f64().unwrap();
    let parts = ms("device_ms") + ms("weights_ms") + ms("first_token_ms");
    assert!((ms("to_first_token_ms") - parts).abs() < 1e-6);
    assert!(ms("first_token_ms") > 0. && ms("second_token_ms") > 0.);
    assert_eq!(line["pipelines"].is_null(), device == "cpu");
}

#[test]
fn startup_cpu() {
    check_startup("cpu");
}

#[cfg(feature = "webgpu")]
#[test]
fn startup_webgpu() {
    check_startup("webgpu");
}

/// One format with blocks of 32, one with blocks of 256.
fn check_quantized(device: &str) {
    for quant in ["q4_0", "q6_k"] {
        let lines = measure(device, &["--quant", quant]);
        assert!(lines.iter().all(|line| line["quant"] == quant));
        assert!(lines.iter().all(|line| line["dtype"] == "f32"));
    }
}

#[test]
fn quantized_cpu() {
    check_quantized("cpu");
}

#[cfg(feature = "webgpu")]
#[test]
fn quantized_webgpu() {
    check_quantized("webgpu");
}

#[cfg(feature = "webgpu")]
#[test]
fn a_model_that_does_not_fit_is_refused() {
    for (format, weights) in [
        (["--dtype", "f16"], "7.00 MiB"),
        (["--quant", "q4_0"], "2.84 MiB"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llama-bench"));
        command
            .args(["--shape", "tiny", "--device", "webgpu"])
            .args(format);
        command.env("CANDLE_WEBGPU_MEMORY_LIMIT", "1M");
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        for part in ["tiny does not fit", weights, "1.00 MiB"] {
            assert!(stderr.contains(part), "{stderr}");
        }
    }
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpu() {
    for dtype in ["f32", "f16", "bf16"] {
        check("webgpu", dtype);
    }
    for sample in ["ahead", "host"] {
        measure("webgpu", &["--sample", sample]);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (args, reason) in [
        (["--shape", "huge"], "possible values: tiny"),
        (["--quant", "q4_9"], "possible values: q4_0"),
    ] {
        refused(&[&["--device", "cpu"], &args[..]].concat(), reason);
    }
    let both = ["--device", "cpu", "--quant", "q4_0", "--dtype", "f16"];
    refused(&both, "cannot be used with");
    let long = ["--device", "cpu", "--quant", "q4_0", "--prefill", "5000"];
    refused(&long, "takes up to 4096");
    let stories = ["--device", "cpu", "--shape", "stories15m"];
    let k = ["--prefill", "16", "--quant", "q4_k"];
    refused(&[&stories[..], &k].concat(), "rows of 288");
}

fn refused(args: &[&str], reason: &str) {
    let output = bench(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains(reason),
        "{stderr}"
    );
}

/// If the adapter has no timestamps, the program says so.
#[cfg(feature = "webgpu")]
#[test]
fn trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama-bench"));
    command.args(["--shape", "tiny", "--prefill", "8", "--context", "4"]);
    command.args(["--decode", "3", "--reps", "1", "--device", "webgpu"]);
    let output = command.arg("--trace").arg(&path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("no timestamps") {
        return;
    }
    assert!(output.status.success(), "{stderr}");
    let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.len() > 3 * 20, "{} events", events.len());
    for event in events {
        assert_eq!(event["ph"], "X");
        assert!(event["name"].as_str().is_some_and(|name| !name.is_empty()));
        assert!(event["ts"].as_f64().unwrap() >= 0. && event["dur"].as_f64().unwrap() >= 0.);
    }
}

/// This program beside itself, and beside programs that cannot be compared.
#[test]
fn beside() {
    let few = ["--shape", "tiny", "--device", "cpu", "--prefill", "8"];
    let this = env!("CARGO_BIN_EXE_llama-bench");
    let other = format!("'{this}' {} --reps 1 --decode 4 --json", few.join(" "));
    let output = bench(&[&few[..], &["--beside", &other, "--rounds", "2"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|l| serde_json::from_str(l).unwrap());
    let lines: Vec<Value> = lines.collect();
    let of = |key: &str| lines.iter().map(|l| l[key].clone()).collect::<Vec<_>>();
    let tests = ["prefill", "prefill", "decode", "decode"];
    assert_eq!(of("test"), tests.map(Value::from));
    let programs = ["this", &other, "this", &other];
    assert_eq!(of("program"), programs.map(Value::from));
    let ratios = lines.iter().map(|line| line["ratio"]["median"].as_f64());
    let ratios: Vec<_> = ratios.collect();
    assert_eq!((ratios[0], ratios[2]), (Some(1.), Some(1.)));
    assert!([ratios[1], ratios[3]]
        .iter()
        .all(|r| r.is_some_and(|r| r > 0.)));
    refused(&["--beside", "no-such-program"], "no-such-program");
    refused(&["--beside", "'open"], "'open");
    let table = format!("'{this}' {} --reps 1 --decode 4", few.join(" "));
    refused(&["--beside", &table], "no line of JSON");
    refused(&["--rounds", "2"], "--beside");
}
