//! How a program speaks and ends: text at once, one message on stderr, and silence where the reader of a pipe has gone.

use std::io::{self, Write};
use std::process::ExitCode;

pub fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // As for every filter: who reads has read enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to stdout at once, so that text appears as it is made.
pub fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let e = e.downcast_ref::<io::Error>();
    e.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
