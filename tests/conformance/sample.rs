//! A sample of the suite for the edit loop, chosen as in the browser (candle-examples/web/site/test-worker.js).

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::case::Case;

/// Keeps one of this many cases of each group, beginning with the first. A prime, since groups are periodic.
const EVERY_VAR: &str = "CANDLE_WEBGPU_TEST_EVERY";

/// The environment's setting; 1 keeps all.
pub fn every() -> Result<usize> {
    let Ok(every) = std::env::var(EVERY_VAR) else {
        return Ok(1);
    };
    let number = every.parse().ok().filter(|n| *n > 0);
    number.with_context(|| format!("{EVERY_VAR}={every:?} is no count"))
}

/// Drops all but one of `every` cases of each group.
pub fn thin(cases: &mut Vec<Case>, every: usize) {
    let mut seen = BTreeMap::<String, usize>::new();
    cases.retain(|case| {
        let count = seen.entry(group(&case.name)).or_default();
        *count += 1;
        (*count - 1).is_multiple_of(every)
    });
}

/// The first two parts of a name, without its last part.
fn group(name: &str) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    parts[..(parts.len() - 1).min(2)].join("/")
}
