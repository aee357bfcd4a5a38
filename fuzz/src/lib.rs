//! Targets for libFuzzer. What they do is in `targets`, which the tests of the workspace include, too.

pub mod targets;

use std::panic::{catch_unwind, resume_unwind, set_hook};
use std::sync::Mutex;

static LAST: Mutex<String> = Mutex::new(String::new());

/// Lets panics unwind, since loaders catch those of candle-transformers, and keeps what the last one said.
pub fn init() {
    set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST.lock() {
            *last = panic.to_string();
        }
    }));
}

/// Runs a target. A panic that gets here is a finding, and libFuzzer aborts for it.
pub fn run(target: targets::Target, data: &[u8]) {
    let Err(panic) = catch_unwind(|| target(data)) else {
        return;
    };
    if let Ok(last) = LAST.lock() {
        eprintln!("{last}");
    }
    resume_unwind(panic);
}
