//! The latest submits, so that a timeout error can name the kernels in flight.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// The kernel and op of a dispatch.
pub(crate) type Name = (&'static str, &'static str);

/// Number of stored submits: more than are usually in flight, unless many readbacks are awaited at once.
const MAX_SUBMITS: usize = 32;
/// Number of kernels named in a message.
const MAX_NAMES: usize = 12;

/// The newest submits and their dispatches, oldest first.
#[derive(Default)]
pub(crate) struct InFlight {
    submits: VecDeque<(wgpu::SubmissionIndex, Vec<Name>)>,
    /// Number of submits so far.
    count: u64,
}

/// Progress of the device.
pub(crate) struct Progress {
    /// Number of finished submits.
    pub finished: u64,
    /// The kernels of unfinished submits, as text.
    pub kernels: String,
}

impl InFlight {
    /// Stores a submit.
    pub fn push(&mut self, index: wgpu::SubmissionIndex, names: Vec<Name>) {
        self.count += 1;
        self.submits.push_back((index, names));
        if self.submits.len() > MAX_SUBMITS {
            self.submits.pop_front();
        }
    }

    /// The submit before the newest `count`.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn before(&self, count: usize) -> Option<wgpu::SubmissionIndex> {
        let at = self.submits.len().checked_sub(count + 1)?;
        self.submits.get(at).map(|(index, _)| index.clone())
    }

    pub fn progress(&self, is_done: impl Fn(&wgpu::SubmissionIndex) -> bool) -> Progress {
        let all = self.submits.iter();
        let open: Vec<_> = all.filter(|(index, _)| !is_done(index)).collect();
        let names = open.iter().flat_map(|(_, names)| names.iter().copied());
        Progress {
            finished: self.count - open.len() as u64,
            kernels: list(names),
        }
    }
}

/// Names in order of first occurrence, each with its count.
fn list(names: impl Iterator<Item = Name>) -> String {
    let mut counted: Vec<(Name, usize)> = Vec::new();
    for name in names {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    let mut text = String::new();
    for (i, ((kernel, op), count)) in counted.iter().enumerate() {
        if i == MAX_NAMES {
            let _ = write!(text, " and {} more", counted.len() - MAX_NAMES);
            break;
        }
        let _ = write!(text, "{}{kernel}", if i > 0 { ", " } else { "" });
        if !op.is_empty() {
            let _ = write!(text, ".{op}");
        }
        if *count > 1 {
            let _ = write!(text, " x {count}");
        }
    }
    match text.is_empty() {
        true => "copies".into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted() {
        let names = [("unary", "uexp"), ("gemm", ""), ("unary", "uexp")];
        assert_eq!(list(names.into_iter()), "unary.uexp x 2, gemm");
        assert_eq!(list(std::iter::empty()), "copies");
        let many = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
        ];
        assert!(list(many.into_iter().map(|n| (n, ""))).ends_with(", l and 2 more"));
    }
}
