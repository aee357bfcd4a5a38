//! Ctrl-C: ends the reply being generated. At the prompt, or if pressed again, it ends the program.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

const LISTENING: u8 = 0;
const SPEAKING: u8 = 1;
const STOPPED: u8 = 2;

/// The exit code that shells report for a program ended by SIGINT.
const ENDED_BY_INTERRUPT: i32 = 130;

#[derive(Clone)]
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    pub fn install() -> anyhow::Result<Self> {
        let state = Arc::new(AtomicU8::new(LISTENING));
        let seen = state.clone();
        ctrlc::set_handler(move || {
            if !stop(&seen) {
                eprintln!();
                std::process::exit(ENDED_BY_INTERRUPT);
            }
        })?;
        Ok(Self(state))
    }

    /// Until the guard is dropped, Ctrl-C ends the reply.
    pub fn speaking(&self) -> Speaking<'_> {
        self.0.store(SPEAKING, Ordering::Relaxed);
        Speaking(&self.0)
    }
}

/// Returns whether there was a reply to end.
fn stop(state: &AtomicU8) -> bool {
    let order = Ordering::Relaxed;
    state
        .compare_exchange(SPEAKING, STOPPED, order, order)
        .is_ok()
}

pub struct Speaking<'a>(&'a AtomicU8);

impl Speaking<'_> {
    pub fn go_on(&self) -> ControlFlow<()> {
        match self.0.load(Ordering::Relaxed) {
            STOPPED => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Drop for Speaking<'_> {
    fn drop(&mut self) {
        self.0.store(LISTENING, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ends_the_reply_and_the_next_the_program() {
        let interrupt = Interrupt(Arc::new(AtomicU8::new(LISTENING)));
        assert!(!stop(&interrupt.0));
        let speaking = interrupt.speaking();
        assert!(speaking.go_on().is_continue());
        assert!(stop(&interrupt.0));
        assert!(speaking.go_on().is_break());
        assert!(!stop(&interrupt.0));
        drop(speaking);
        assert!(!stop(&interrupt.0));
        assert!(interrupt.speaking().go_on().is_continue());
    }
}
