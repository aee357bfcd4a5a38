//! The program `webgpu-info`: what it says of the adapter that the tests run on.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::process::{Command, Output};

fn output(program: &str, args: &[&str], vars: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(args).envs(vars.iter().copied());
    command.output().unwrap()
}

fn stdout(program: &str, args: &[&str], vars: &[(&str, &str)]) -> String {
    let output = output(program, args, vars);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

const INFO: &str = env!("CARGO_BIN_EXE_webgpu-info");

#[test]
fn features_that_are_off_have_reasons() {
    let disable = ("CANDLE_WEBGPU_DISABLE", "subgroups,pack16");
    let info: Value = serde_json::from_str(&stdout(INFO, &["--json"], &[disable])).unwrap();
    for name in ["subgroups", "pack16"] {
        assert_eq!(info["off"][name], "CANDLE_WEBGPU_DISABLE");
    }
    let text = stdout(INFO, &[], &[disable]);
    let name = info["chosen"]["name"].as_str().unwrap();
    let said = [
        format!("Candle uses {name}"),
        "pack16: CANDLE_WEBGPU_DISABLE".into(),
    ];
    assert!(said.iter().all(|part| text.contains(part)), "{text}");
}

/// With one second for each part, so that most of the checks and timings are left out.
#[test]
fn a_report_can_be_compared() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.md");
    let file = file.to_str().unwrap();
    let variable = ("CANDLE_WEBGPU_DISABLE", "timestamps");
    let args = ["--report", file, "--seconds", "1"];
    assert_eq!(stdout(INFO, &args, &[variable]), "");
    let text = std::fs::read_to_string(file).unwrap();
    for part in [
        "variable: CANDLE_WEBGPU_DISABLE=timestamps",
        "max_buffer_size: ",
        "not in use             timestamps: CANDLE_WEBGPU_DISABLE",
        " passed, 0 failed, ",
        "gemm 192x192x192 f32 ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = stdout(env!("CARGO_BIN_EXE_bench"), &["compare", file, file], &[]);
    assert!(text.contains("gemm 192x192x192 f32 "), "{text}");
}

/// What was tuned for an adapter is used by later devices, unless the environment says something else.
#[test]
fn a_tuning_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ("CANDLE_WEBGPU_CACHE", dir.path().to_str().unwrap());
    let text = stdout(
        INFO,
        &["--tune", "--shape", "tiny", "--seconds", "0"],
        &[cache],
    );
    assert!(
        text.contains("f16 decode") && text.contains("stopped after 0 s"),
        "{text}"
    );
    assert!(!stdout(INFO, &[], &[cache]).contains("tuned"));

    let info: Value = serde_json::from_str(&stdout(INFO, &["--json"], &[cache])).unwrap();
    let field = |name: &str| info["chosen"][name].as_str().unwrap();
    let remember = |value: &str| {
        let [backend, name, driver] = ["backend", "name", "driver"].map(field);
        let version = env!("CARGO_PKG_VERSION");
        let line =
            format!("{version}\t{backend}\t{name}\t{driver}\tCANDLE_WEBGPU_SUBMIT\t{value}\n");
        std::fs::write(dir.path().join("tune.tsv"), line).unwrap();
    };
    remember("24");
    assert!(stdout(INFO, &[], &[cache]).contains("CANDLE_WEBGPU_SUBMIT=24"));
    // A value out of range shows that it is used.
    remember("1");
    let said = output(INFO, &[], &[cache]).stderr;
    assert!(String::from_utf8_lossy(&said).contains("CANDLE_WEBGPU_SUBMIT=\"1\" is not"));
    stdout(INFO, &[], &[cache, ("CANDLE_WEBGPU_SUBMIT", "80")]);
}

/// A feature that fails in the probe is off in later programs, until a probe finds no fault.
#[test]
fn a_probe_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let cache = ("CANDLE_WEBGPU_CACHE", dir.path().to_str().unwrap());
    let off = |vars: &[(&str, &str)]| {
        let info: Value = serde_json::from_str(&stdout(INFO, &["--json"], vars)).unwrap();
        info["off"].clone()
    };
    let probe = |fault: &str| {
        let vars = [cache, ("WEBGPU_INFO_FAULT", fault)];
        stdout(INFO, &["--probe", "--seconds", "0"], &vars)
    };
    let before = off(&[cache]);
    for (fault, said) in [
        ("abort:immediates", "ended with signal"),
        ("wrong:immediates", "1 wrong checks, the first is injected"),
    ] {
        let text = probe(fault);
        assert_eq!(
            text.matches("works").count() + 1,
            text.lines().count() - 2,
            "{text}"
        );
        let after = off(&[cache]);
        let why = after["immediates"].as_str().unwrap();
        assert!(
            why.starts_with("webgpu-info --probe: ") && why.contains(said),
            "{why}"
        );
        let again = ("CANDLE_WEBGPU_ENABLE", "immediates");
        assert_eq!(off(&[cache, again]), before);
    }
    assert!(!probe("").contains("injected"));
    assert_eq!(off(&[cache]), before);
}
