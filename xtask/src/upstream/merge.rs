//! Three-way merges and formatting of single files.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{bail, Context, Result};

use crate::run;

/// `current` with the changes from `before` to `after`, and the number of conflicts, which are marked as git marks them.
pub fn three_way(
    current: &str,
    before: &str,
    after: &str,
    scratch: &Path,
) -> Result<(String, usize)> {
    if current == before {
        return Ok((after.to_owned(), 0));
    }
    fs::create_dir_all(scratch)?;
    let write = |name: &str, text: &str| fs::write(scratch.join(name), text);
    write("branch", current)?;
    write("fork-before", before)?;
    write("fork", after)?;
    let output = run::git(scratch)
        .args(["merge-file", "--stdout", "branch", "fork-before", "fork"])
        .output()
        .context("cannot start git")?;
    let conflicts = match output.status.code() {
        // The number of conflicts, at most 127.
        Some(code @ 0..=127) => code as usize,
        _ => bail!(
            "git merge-file failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
    };
    Ok((String::from_utf8(output.stdout)?, conflicts))
}

/// Formats Rust as the repository does. Text that does not parse, such as conflicts, stays as it is.
pub fn format(text: String) -> Result<String> {
    // Files are the same at most steps, and starting rustfmt takes longer than all else.
    static DONE: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let done = || DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(formatted) = done().get(&text) {
        return Ok(formatted.clone());
    }
    let formatted = rustfmt(text.clone())?;
    done().insert(formatted.clone(), formatted.clone());
    done().insert(text, formatted.clone());
    Ok(formatted)
}

fn rustfmt(text: String) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2021", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start rustfmt")?;
    let mut stdin = rustfmt.stdin.take().context("rustfmt has no stdin")?;
    let input = text.clone();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = rustfmt.wait_with_output()?;
    // rustfmt may stop reading at an error.
    let _ = writer.join();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Ok(text),
    }
}
