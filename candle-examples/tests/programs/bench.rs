//! The program `bench`: plausible rates, isolated failures of rows, and reports on saved runs.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(args).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = bench(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], reason: &str) {
    let output = bench(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains(reason),
        "{stderr}"
    );
}

const FEW: [&str; 8] = [
    "--scale",
    "small",
    "--samples",
    "2",
    "--filter",
    "rope",
    "--filter",
    "gemm_nk 64x256x256",
];

fn measure(device: &str, args: &[&str]) -> Value {
    let args = [&FEW[..], &["--device", device, "--json"], args].concat();
    serde_json::from_str(&stdout(&args)).unwrap()
}

fn positive(value: &Value) -> f64 {
    let value = value.as_f64().unwrap();
    assert!(value > 0., "{value}");
    value
}

fn check(device: &str) {
    let results = measure(device, &[]);
    assert_eq!(results["device"], device);
    assert_eq!(results["scale"], "small");
    positive(&results["yardsticks"]["copy"]);
    positive(&results["yardsticks"]["gemm"]);
    let rows = results["rows"].as_array().unwrap();
    let names = rows.iter().map(|row| row["name"].as_str().unwrap());
    let names: Vec<_> = names.collect();
    assert_eq!(
        names,
        [
            "gemm_nk 64x256x256 f32",
            "gemm_nk 64x256x256 f16",
            "gemm_nk 64x256x256 bf16",
            "rope 8x64x64 f32",
            "rope 8x64x64 f16",
        ]
    );
    for row in rows {
        let seconds = |key: &str| positive(&row["seconds"][key]);
        assert!(seconds("min") <= seconds("median") && seconds("median") <= seconds("max"));
        let ratio = positive(&row["ratio"]);
        let (unit, best) = match row["op"].as_str().unwrap() {
            "rope" => ("GB/s", &results["yardsticks"]["copy"]),
            _ => ("TFLOP/s", &results["yardsticks"]["gemm"]),
        };
        assert_eq!(row["unit"], unit);
        let expected = positive(&row["rate"]) / positive(best);
        assert!((ratio / expected - 1.).abs() < 1e-9);
        match device {
            "webgpu" => assert!(row["dispatches"].as_f64().unwrap() >= 1.),
            _ => assert!(row["dispatches"].is_null()),
        }
    }
}

#[test]
fn cpu() {
    check("cpu");
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpu() {
    check("webgpu");
}

/// The only file that a run wrote to the folder.
fn saved(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    file.clone()
}

#[test]
fn saved_runs_are_compared_and_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("results");
    let save = format!("--save={}", folder.display());
    let printed = measure("cpu", &[&save]);
    let file = saved(&folder);
    let name = file.file_name().unwrap().to_str().unwrap();
    let date = printed["date"].as_str().unwrap();
    assert!(name.starts_with(&format!("{date}-cpu-")), "{name}");
    assert!(name.ends_with("-small.json"), "{name}");

    let mut results: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(results, printed);
    let median = &mut results["rows"][3]["seconds"]["median"];
    *median = (2. * positive(median)).into();
    let slower = dir.path().join("slower.json");
    std::fs::write(&slower, results.to_string()).unwrap();

    let (file, slower) = (file.to_str().unwrap(), slower.to_str().unwrap());
    let text = stdout(&["compare", file, slower]);
    let worst = text.lines().nth(3).unwrap();
    assert!(
        worst.starts_with("rope 8x64x64 f32") && worst.ends_with("0.500"),
        "{text}"
    );

    let plot = dir.path().join("rates.svg");
    stdout(&["plot", file, slower, "-o", plot.to_str().unwrap()]);
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.contains("<svg") && svg.contains("gemm_nk 64x256x256 bf16"));
}

#[test]
fn the_table_has_a_line_for_each_row() {
    let args = [&FEW[..], &["--device", "cpu"]].concat();
    let text = stdout(&args);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3 + 5, "{text}");
    assert!(lines[3].starts_with("gemm_nk 64x256x256 f32 "), "{text}");
    assert!(lines[3].contains(" TFLOP/s "), "{text}");
}

#[test]
fn the_list_names_the_rows_of_a_scale() {
    let small = stdout(&["--list", "--scale", "small", "--filter", "gemv 1x"]);
    assert!(small.lines().all(|line| line.starts_with("gemv 1x")));
    assert_eq!(small.lines().count(), 6);
    let full = stdout(&["--list", "--scale", "full"]);
    assert!(full.lines().any(|line| line == "gemm 4096x4096x4096 bf16"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    refused(&["--device", "cpu", "--filter", "no such op"], "no row");
    refused(&["compare", "nowhere.json", "nowhere.json"], "nowhere.json");
    refused(&["plot", "nowhere.json"], "--output");
    refused(&["--samples", "0"], "--samples");
}
