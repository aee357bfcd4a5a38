//! bench.html, with the smallest shape.

use anyhow::{ensure, Result};
use serde_json::Value;

use crate::driver::{Gpu, Page};
use crate::steps::MINUTE;

/// The fields of a line of llama-bench.
const FIELDS: [&str; 15] = [
    "test",
    "shape",
    "dtype",
    "quant",
    "device",
    "adapter",
    "batch",
    "context",
    "tokens",
    "reps",
    "sample",
    "ms",
    "ms_per_token",
    "worst_step_ms",
    "tok_s",
];

#[test]
#[ignore = "needs a browser and target/site"]
fn llama_benchs_shapes_run_and_give_its_json() -> Result<()> {
    let path = "bench.html?shape=tiny&weights=q4_0&device=cpu&prefill=8&decode=2&context=4&reps=2";
    let page = Page::open(Gpu::None, path)?;
    page.wait_state("ready", MINUTE)?;
    page.click("#start")?;
    page.wait(
        "document.querySelectorAll('#rows tr').length === 3",
        2 * MINUTE,
    )?;
    page.wait_state("ready", MINUTE)?;
    page.shot("bench");
    let tests = ["prefill", "decode", "decode"];
    for (line, test) in page.text("json")?.lines().zip(tests) {
        let line: Value = serde_json::from_str(line)?;
        for field in FIELDS {
            ensure!(line.get(field).is_some(), "{field} is missing in {line}");
        }
        let rate = line["tok_s"].as_f64().unwrap_or_default();
        ensure!(
            line["test"] == test && line["shape"] == "tiny" && rate > 0.,
            "{line}"
        );
    }
    Ok(())
}
