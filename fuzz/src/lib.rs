//! libFuzzer targets. Their code is in `targets`, which the workspace's tests also include.

pub mod targets;

use std::panic::{catch_unwind, resume_unwind, set_hook};
use std::sync::Mutex;

static LAST: Mutex<String> = Mutex::new(String::new());

/// Lets panics unwind, since the loaders catch those of candle-transformers, and keeps the last message.
pub fn init() {
    set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST.lock() {
            *last = panic.to_string();
        }
    }));
}

/// Runs a target. A panic that reaches this function is a finding, at which libFuzzer aborts.
pub fn run(target: targets::Target, data: &[u8]) {
    let Err(panic) = catch_unwind(|| target(data)) else {
        return;
    };
    if let Ok(last) = LAST.lock() {
        eprintln!("{last}");
    }
    resume_unwind(panic);
}
