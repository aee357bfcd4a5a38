//! Progress bars on stderr, shown only in a terminal: stdout has the generated text.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar over `bytes`; the caller increments it and calls `finish_and_clear`.
pub fn bytes(label: &str, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(label.to_string());
    bar
}

/// A spinner for work of unknown length.
pub fn spinner(label: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(label.to_string());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar over a count of steps.
pub fn steps(label: &str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "[{bar:30}] {pos}/{len} {per_sec} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message(label.to_string());
    bar
}
