//! Uses the page in a headless Chromium as a person would, and runs the suite of test.html. Screenshots are saved in
//! target/web-shots.
//!
//!     cargo xtask test web

mod bench;
mod chats;
mod driver;
mod hostile;
mod large;
mod offline;
mod own;
mod package;
mod steps;
mod tiny;

use anyhow::{ensure, Result};
use driver::{Gpu, Page};
use serde_json::Value;
use steps::{greedy, ids, load, loaded, native, report, tab_to, LISTED, MINUTE};

#[test]
#[ignore = "needs a browser and target/site"]
fn a_story_is_the_same_on_webgpu_on_the_cpu_and_natively() -> Result<()> {
    const TOKENS: usize = 50;
    let expected = native(TOKENS)?;
    let page = Page::open(Gpu::WebGpu, "index.html?model=stories15m")?;
    load(&page)?;
    ensure!(
        page.text("device")?.starts_with("WebGPU"),
        "{}",
        page.text("device")?
    );
    greedy(&page, TOKENS)?;
    // The prompt has the focus: Enter starts.
    page.press("Enter")?;
    page.wait(
        "document.querySelector('.answer')?.textContent.length > 100",
        2 * MINUTE,
    )?;
    page.shot("generating");
    page.wait_state("ready", 5 * MINUTE)?;
    report(&page, "stories15M, WebGPU")?;
    ensure!(
        ids(&page)? == expected,
        "WebGPU: {:?}, natively {expected:?}",
        ids(&page)?
    );
    ensure!(page
        .text("text")?
        .starts_with("Once upon a time, there was"));
    page.click("#speeds summary")?;
    page.wait("document.querySelector('#chart polyline')", MINUTE)?;
    page.shot("speed");

    // Switching the device loads the model again.
    page.click("input[value=cpu]")?;
    page.wait_state("ready", 2 * MINUTE)?;
    ensure!(page.text("device")? == "CPU", "{}", page.text("device")?);
    page.click("#go")?;
    page.wait_state("busy", MINUTE)?;
    page.wait_state("ready", 5 * MINUTE)?;
    report(&page, "stories15M, wasm CPU")?;
    ensure!(
        ids(&page)? == expected,
        "CPU: {:?}, natively {expected:?}",
        ids(&page)?
    );
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn a_text_can_be_stopped_and_another_begun() -> Result<()> {
    // Runs on WebGPU: the CPU could finish before it is stopped.
    let page = Page::open(Gpu::WebGpu, "index.html")?;
    page.phone()?;
    page.dark()?;
    page.wait(LISTED, MINUTE)?;
    tab_to(&page, "load")?;
    page.press("Enter")?;
    loaded(&page)?;
    greedy(&page, 2000)?;
    page.fill("prompt", "The little dog")?;
    tab_to(&page, "go")?;
    page.press("Enter")?;
    page.wait(
        "document.querySelector('.answer')?.textContent.length > 40",
        MINUTE,
    )?;
    page.shot("phone-dark");
    // The focus has moved from Generate to Stop, so the same key stops.
    page.press("Enter")?;
    page.wait_state("ready", MINUTE)?;
    let stop = page.value("document.body.dataset.stop")?;
    ensure!(stop == "interrupted", "{stop}");
    let first = ids(&page)?;
    ensure!(
        !first.is_empty() && first.len() < 200,
        "{} tokens",
        first.len()
    );
    // Escape stops too.
    page.fill("prompt", "The little dog")?;
    page.press("Enter")?;
    page.wait(
        "[...document.querySelectorAll('.answer')].at(-1).textContent.length > 40",
        MINUTE,
    )?;
    page.press("Escape")?;
    page.wait_state("ready", MINUTE)?;
    let common = first.len().min(ids(&page)?.len());
    ensure!(ids(&page)?[..common] == first[..common], "another story");
    let wide =
        page.value("document.documentElement.scrollWidth > document.documentElement.clientWidth")?;
    ensure!(wide == Value::Bool(false), "wider than a phone");
    Ok(())
}

fn capital(gpu: Gpu, device: &str) -> Result<()> {
    let path = format!("index.html?model=smollm2-135m-q4_1&device={device}");
    let page = Page::open(gpu, &path)?;
    load(&page)?;
    greedy(&page, 8)?;
    page.click("#go")?;
    page.wait_state("busy", MINUTE)?;
    page.wait_state("ready", 5 * MINUTE)?;
    report(&page, &format!("SmolLM2 135M Q4_1, {device}"))?;
    page.shot(&format!("chat-{device}"));
    let text = page.text("text")?;
    ensure!(text.contains("Paris"), "{text}");
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn smollm2_answers_on_webgpu() -> Result<()> {
    capital(Gpu::WebGpu, "webgpu")
}

/// The blocks are dequantized on the CPU: rounding activations to 8 bits would change the answer.
#[test]
#[ignore = "needs a browser and target/site"]
fn smollm2_answers_on_the_cpu() -> Result<()> {
    capital(Gpu::None, "cpu")
}

#[test]
#[ignore = "needs a browser and target/site"]
fn without_webgpu_a_message_and_the_cpu() -> Result<()> {
    let page = Page::open(Gpu::None, "index.html")?;
    page.wait("!document.getElementById('notice').hidden", MINUTE)?;
    let notice = page.text("notice")?;
    ensure!(
        notice.contains("WebGPU") && notice.contains("CPU"),
        "{notice}"
    );
    let disabled = page.value("document.querySelector('input[value=webgpu]').disabled")?;
    ensure!(disabled == Value::Bool(true), "WebGPU can be chosen");
    load(&page)?;
    greedy(&page, 20)?;
    page.click("#go")?;
    page.wait_state("busy", MINUTE)?;
    page.wait_state("ready", MINUTE)?;
    page.shot("no-webgpu");
    ensure!(ids(&page)? == native(20)?, "another story");
    Ok(())
}

#[test]
#[ignore = "needs a browser and target/site"]
fn caps_are_reported() -> Result<()> {
    let page = Page::open(Gpu::WebGpu, "caps.html")?;
    page.wait_state("done", MINUTE)?;
    let report = page.text("report")?;
    for part in [
        "user agent",
        "subgroups",
        "maxStorageBufferBindingSize",
        "vendor",
        "core: right",
        "subgroups: right",
    ] {
        ensure!(report.contains(part), "{part} is missing in {report}");
    }
    page.shot("caps");
    let page = Page::open(Gpu::None, "caps.html")?;
    page.wait_state("done", MINUTE)?;
    ensure!(page.text("report")?.contains("WebGPU:"));
    Ok(())
}

/// Runs one case in this many of each group, and compiles one shader in this many of each kernel, starting with the first; 1 takes all.
/// A prime, since groups are periodic.
const EVERY_VAR: &str = "CANDLE_WEB_EVERY";

#[test]
#[ignore = "needs a browser and target/site"]
fn shaders_compile_and_ops_agree_with_the_cpu() -> Result<()> {
    let every = std::env::var(EVERY_VAR).unwrap_or_else(|_| "37".into());
    let page = Page::open(Gpu::WebGpu, &format!("test.html?start&every={every}"))?;
    let limit = if every == "1" { 600 } else { 20 };
    page.wait_state("done", limit * MINUTE)?;
    page.shot("tests");
    eprintln!("{}", page.text("summary")?);
    let failures = page.value("results.failures.map((f) => `${f.name}: ${f.message}`)")?;
    let failures: Vec<String> = serde_json::from_value(failures)?;
    ensure!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
    let counts =
        page.value("[results.shaders, results.cases, results.count, results.asynchronous]")?;
    let all = page.value(
        "results.cases === results.count && results.shaders > 100 && results.asynchronous",
    )?;
    ensure!(all == Value::Bool(true), "not everything ran: {counts}");
    Ok(())
}
