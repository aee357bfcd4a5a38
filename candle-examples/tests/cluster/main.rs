//! The program `cluster`: for any number of ranks, results are those of one process, and a rank that fails ends all with its name.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod data;
mod faults;
mod split;
#[path = "../programs/tiny.rs"]
#[allow(dead_code, reason = "the tests of the other programs use the rest")]
mod tiny;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");

/// The device on which modes are compared.
const DEVICE: &str = if cfg!(feature = "webgpu") {
    "webgpu"
} else {
    "cpu"
};

/// One MPI job at a time: ranks share the cores.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// mpirun, which runs as root and starts more ranks than there are cores.
fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    command.args([
        "--allow-run-as-root",
        "--oversubscribe",
        "--bind-to",
        "none",
    ]);
    command.stdin(Stdio::null());
    command
}

/// Starts `ranks` ranks with the same arguments.
fn cluster(ranks: usize, args: &[&str]) -> Command {
    let mut command = mpirun();
    command.args(["-n", &ranks.to_string(), CLUSTER]).args(args);
    // Rules that round differently are off, since a readback may end a batch within what they fuse: bits would depend on timing.
    command.env("CANDLE_WEBGPU_REWRITE", "-attention,-softmax");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The rows on stdout.
fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A JSONL file of `count` prompts of different lengths.
fn prompts(dir: &Path, count: usize) -> PathBuf {
    let path = dir.join("prompts.jsonl");
    let line = |at: usize| {
        let prompt = "some words "[..4 + at % 7].to_string();
        serde_json::json!({ "id": format!("p{at}"), "prompt": prompt }).to_string() + "\n"
    };
    std::fs::write(&path, (0..count).map(line).collect::<String>()).unwrap();
    path
}

/// The ids that `llama` generates for each of the prompts.
fn expected(model: &Path, more: &[&str], prompts: &Path, tokens: &str) -> Vec<Value> {
    let prompts = parse(&std::fs::read_to_string(prompts).unwrap());
    let each = prompts.iter().map(|line| {
        let mut llama = Command::new(env!("CARGO_BIN_EXE_llama"));
        llama.arg("--model").arg(model).args(more);
        llama.args(["--device", DEVICE, "--temperature", "0", "--json"]);
        llama.args(["-n", tokens, line["prompt"].as_str().unwrap()]);
        let output = llama.output().unwrap();
        rows(&output)[0]["ids"].clone()
    });
    each.collect()
}

/// The values of a key of all rows.
fn each(rows: &[Value], key: &str) -> Vec<Value> {
    rows.iter().map(|row| row[key].clone()).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
