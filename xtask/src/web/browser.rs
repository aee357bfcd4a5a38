//! Finds the Chromium that the tests drive.

use std::path::PathBuf;

use anyhow::{bail, Result};

use crate::apt;

/// The path of the browser to use.
pub const BROWSER_VAR: &str = "CANDLE_WEB_BROWSER";

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Finds Chromium or Chrome, or installs Debian's Chromium if that needs no password.
pub fn ensure() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(BROWSER_VAR) {
        return Ok(path.into());
    }
    if let Some(path) = found() {
        return Ok(path);
    }
    apt::install(&["chromium"], "No Chromium found; installing it")?;
    match found() {
        Some(path) => Ok(path),
        None => {
            bail!("no Chromium or Chrome found: install one, or set {BROWSER_VAR} to its path")
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
