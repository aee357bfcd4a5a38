//! Output and exit: text is flushed at once, errors go to stderr as one message, and a closed pipe ends the program
//! silently.

use std::io::{self, Write};
use std::process::ExitCode;

pub fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe is no error: the reader has read enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to stdout and flushes, so that text appears as it is generated.
pub fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let e = e.downcast_ref::<io::Error>();
    e.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
