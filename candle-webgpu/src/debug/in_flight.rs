//! What has been submitted lately, so that a wait that takes too long can say what it waits for.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Kernel and op of a dispatch.
pub(crate) type Name = (&'static str, &'static str);

/// Submits that are remembered; more than wait for the device at a time, unless somebody awaits many readbacks at once.
const KEPT: usize = 16;
/// Names in a message.
const NAMED: usize = 12;

/// The newest submits and the dispatches in them, oldest first.
#[derive(Default)]
pub(crate) struct InFlight {
    submits: VecDeque<(wgpu::SubmissionIndex, Vec<Name>)>,
    /// All there ever were.
    count: u64,
}

/// What is in flight.
pub(crate) struct Open {
    /// Submits that are done, of all there ever were.
    pub finished: u64,
    /// The dispatches in the others, the first ones by name.
    pub kernels: String,
}

impl InFlight {
    /// Remembers a submit.
    pub fn push(&mut self, index: wgpu::SubmissionIndex, names: Vec<Name>) {
        self.count += 1;
        self.submits.push_back((index, names));
        if self.submits.len() > KEPT {
            self.submits.pop_front();
        }
    }

    pub fn open(&self, is_done: impl Fn(&wgpu::SubmissionIndex) -> bool) -> Open {
        let all = self.submits.iter();
        let open: Vec<_> = all.filter(|(index, _)| !is_done(index)).collect();
        let names = open.iter().flat_map(|(_, names)| names.iter().copied());
        Open {
            finished: self.count - open.len() as u64,
            kernels: list(names),
        }
    }
}

/// Names in the order in which they come first, each with how often it comes.
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
        if i == NAMED {
            let _ = write!(text, " and {} more", counted.len() - NAMED);
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
