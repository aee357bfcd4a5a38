//! Conformance cases that fail for a known reason. A listed case that passes is an error, so the list stays true.

pub struct Known {
    /// Part of the adapter's name; empty for every adapter.
    pub adapter: &'static str,
    /// The case's name, or a prefix of the names of a group.
    pub case: &'static str,
    pub reason: &'static str,
}

pub const KNOWN: &[Known] = &[];

/// Why `case` is expected to fail on `adapter`.
pub fn reason(adapter: &str, case: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|k| adapter.contains(k.adapter) && case.starts_with(k.case))
        .map(|k| k.reason)
}
