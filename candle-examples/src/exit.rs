//! How a program ends: one message on stderr, and silence where the reader of a pipe has gone.

use std::io;
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

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    let e = e.downcast_ref::<io::Error>();
    e.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
