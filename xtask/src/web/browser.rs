//! A Chromium that can be driven, for the tests.

use std::path::PathBuf;

use anyhow::{bail, Result};

use crate::apt;

/// Names a browser to take instead of one that is found.
pub const BROWSER_VAR: &str = "CANDLE_WEB_BROWSER";

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Finds a Chromium, or installs Debian's where that can be done without asking.
pub fn ensure() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(BROWSER_VAR) {
        return Ok(path.into());
    }
    if let Some(path) = found() {
        return Ok(path);
    }
    apt::install(&["chromium"], "There is no Chromium here; installing it")?;
    match found() {
        Some(path) => Ok(path),
        None => {
            bail!("there is no Chromium or Chrome here: install one, or name it in {BROWSER_VAR}")
        }
    }
}

fn found() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let candidates = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |dir| dir.join(name)));
    candidates.into_iter().find(|path| path.exists())
}
