//! What several tests do with the page.

use std::time::Duration;

use anyhow::{bail, ensure, Result};
use candle_core::Device;
use candle_examples::files;
use candle_examples::generate::{generate, sampling, Options};

use crate::driver::Page;

pub const MINUTE: Duration = Duration::from_secs(60);

/// True once the list of models is shown.
pub const LISTED: &str = "document.querySelectorAll('#model option').length";

pub fn load(page: &Page) -> Result<()> {
    page.wait(LISTED, MINUTE)?;
    page.click("#load")?;
    loaded(page)
}

pub fn loaded(page: &Page) -> Result<()> {
    page.wait(
        "['ready', 'empty'].includes(document.body.dataset.state)",
        2 * MINUTE,
    )?;
    let notice = page.value(
        "document.getElementById('notice').hidden || document.getElementById('notice').textContent",
    )?;
    let state = page.value("document.body.dataset.state")?;
    ensure!(state == "ready", "not loaded: {notice}");
    Ok(())
}

/// Moves the focus with the keyboard only.
pub fn tab_to(page: &Page, id: &str) -> Result<()> {
    for _ in 0..20 {
        page.press("Tab")?;
        if page.value("document.activeElement.id")? == id {
            return Ok(());
        }
    }
    bail!("Tab does not reach {id}")
}

pub fn greedy(page: &Page, tokens: usize) -> Result<()> {
    page.value(&format!(
        "(document.getElementById('temperature').value = 0, document.getElementById('tokens').value = {tokens})"
    ))?;
    Ok(())
}

pub fn ids(page: &Page) -> Result<Vec<u32>> {
    let ids = page.value("document.body.dataset.ids")?;
    let ids = ids.as_str().unwrap_or_default();
    Ok(ids.split(',').filter_map(|id| id.parse().ok()).collect())
}

/// The ids that the native CPU device generates for the page's own prompt.
pub fn native(tokens: usize) -> Result<Vec<u32>> {
    let files = files::locate("stories15m", None)?;
    let mut loaded = files::load(&files, None, 0, &Device::Cpu)?;
    let options = Options {
        tokens,
        sampling: sampling(0., None, None),
        seed: 0,
        repeat_penalty: 1.,
        repeat_last: 64,
    };
    let output = generate(
        &mut loaded,
        "Once upon a time",
        &options,
        &Device::Cpu,
        |_| {},
    )?;
    Ok(output.ids)
}

/// Prints to stderr, which `--nocapture` shows without mixing it with the names of the tests.
pub fn report(page: &Page, what: &str) -> Result<()> {
    eprintln!("{what}: {}", page.text("speed")?);
    Ok(())
}

/// Types a prompt and waits for the end of the answer.
pub fn ask(page: &Page, prompt: &str) -> Result<()> {
    page.fill("prompt", prompt)?;
    // The answer may come too fast for the state `busy` to be seen.
    answered(page, || page.press("Enter"))
}

/// Waits until what `act` asks for has been answered.
pub fn answered(page: &Page, act: impl FnOnce() -> Result<()>) -> Result<()> {
    page.value("delete document.body.dataset.ids")?;
    act()?;
    page.wait(
        "'ids' in document.body.dataset && document.body.dataset.state === 'ready'",
        2 * MINUTE,
    )
}

/// Drops files on the page, and waits until their model is loaded.
pub fn drop_model(page: &Page, files: &[(&str, Vec<u8>)]) -> Result<()> {
    page.wait(LISTED, MINUTE)?;
    page.drop(files)?;
    loaded(page)
}
