//! The rules that rewrite recorded ops, one file each, and which of them are on.

mod attention;
mod cats;
pub(crate) mod chains;
pub(crate) mod copies;
#[cfg(test)]
mod cost;
pub(crate) mod graph;
mod lift;
mod norms;
mod ropes;
mod rows;
mod siblings;
mod stores;
#[cfg(test)]
pub(crate) mod testing;
mod trace;
mod transposes;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Inner;
use crate::error::{Error, Result};
use graph::Graph;

/// Rules to do without, separated by commas, each behind a minus: `-copies`; `-all` for all of them. A plus turns one on.
pub const REWRITE_VAR: &str = "CANDLE_WEBGPU_REWRITE";

/// A row of [`RULES`].
pub struct Rule {
    pub name: &'static str,
    /// What it makes of what.
    pub about: &'static str,
    /// Whether it is on unless the environment says otherwise.
    pub usual: bool,
    /// The kernels that only it records; without one of them the rule is off.
    makes: &'static [&'static str],
    /// Rewrites what is about to be encoded; gives the number of times that it fired. None: the rule is applied to each
    /// op as it is recorded.
    rewrite: Option<fn(&Inner, &mut Graph) -> u64>,
}

/// In the order in which they are tried. `stores` is off, since a program that times an op drops what the op gives.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: COPIES,   about: "copies that follow each other in equal steps: one copy", usual: true, makes: &[], rewrite: None },
    Rule { name: "stores", about: "what nobody reads and nobody holds: nothing", usual: false, makes: &[], rewrite: Some(stores::rewrite) },
    Rule { name: "attention", about: "q k^T, scale, cap, mask, softmax, times v: the kernels of sdpa", usual: true, makes: &["flash", "flash_decode", "flash_merge"], rewrite: Some(attention::rewrite) },
    Rule { name: "cats", about: "copies that do not meet, as those of a concatenation: one kernel", usual: true, makes: &["copy_parts"], rewrite: Some(cats::rewrite) },
    Rule { name: "norms", about: "a sum and its rms_norm: one kernel that writes both", usual: true, makes: &["add_rms_norm"], rewrite: Some(norms::rewrite) },
    Rule { name: "siblings", about: "products of the same few rows with two or three matrices: one kernel", usual: true, makes: &["gemv_siblings", "gemv_siblings_sub32", "gemv_siblings_sub128", "gemv_siblings_alone", "gemv_dot_siblings", "gemv_dot_siblings_sub", "gemv_dot_siblings_many"], rewrite: Some(siblings::rewrite) },
    Rule { name: "ropes",  about: "queries and keys turned by the same angles: one kernel", usual: true, makes: &["rope_pair"], rewrite: Some(ropes::rewrite) },
    Rule { name: "chains", about: "elementwise ops whose results only the next one reads: one kernel", usual: true, makes: &["chain"], rewrite: Some(chains::rewrite) },
    Rule { name: "rows",   about: "softmax of few long rows: chunks of them, in two kernels", usual: true, makes: &["softmax_parts", "softmax_join"], rewrite: Some(rows::rewrite) },
    Rule { name: "transposes", about: "transposing copies: the same through tiles in workgroup memory", usual: true, makes: &["transpose", "transpose16"], rewrite: Some(transposes::rewrite) },
];

pub(crate) const COPIES: &str = "copies";

/// Which rules are on, and how often each of them fired.
#[derive(Debug)]
pub(crate) struct Rewrites {
    on: [bool; RULES.len()],
    fired: [AtomicU64; RULES.len()],
}

impl Rewrites {
    /// All of them but those that the environment turns off.
    pub fn from_env() -> Result<Self> {
        Self::parse(&std::env::var(REWRITE_VAR).unwrap_or_default())
    }

    pub fn parse(list: &str) -> Result<Self> {
        let mut on: [bool; RULES.len()] = std::array::from_fn(|i| RULES[i].usual);
        for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            if name == "-all" {
                on = [false; RULES.len()];
                continue;
            }
            let (off, plus) = (name.strip_prefix('-'), name.strip_prefix('+'));
            let rule = off.or(plus).and_then(position);
            let rule = rule.ok_or_else(|| Error::UnknownFeature {
                name: name.to_string(),
                known: RULES
                    .iter()
                    .map(|r| format!("-{}, ", r.name))
                    .collect::<String>()
                    + "-all",
            })?;
            on[rule] = plus.is_some();
        }
        Ok(Rewrites {
            on,
            fired: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Those that need none of these kernels.
    pub fn without(mut self, denied: &[&str]) -> Self {
        for (on, rule) in self.on.iter_mut().zip(RULES) {
            *on &= !rule.makes.iter().any(|kernel| denied.contains(kernel));
        }
        self
    }

    pub fn is_on(&self, name: &str) -> bool {
        position(name).is_some_and(|rule| self.on[rule])
    }

    pub fn note(&self, name: &str) {
        if let Some(rule) = position(name) {
            self.fired[rule].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether any rule looks at what is recorded.
    pub fn look(&self) -> bool {
        RULES
            .iter()
            .zip(self.on)
            .any(|(rule, on)| on && rule.rewrite.is_some())
    }

    /// Applies the rules that are on.
    pub fn apply(&self, device: &Inner, graph: &mut Graph) {
        for (i, rule) in RULES.iter().enumerate() {
            if let Some(rewrite) = rule.rewrite.filter(|_| self.on[i]) {
                self.fired[i].fetch_add(rewrite(device, graph), Ordering::Relaxed);
            }
        }
    }

    /// Rules by name: whether each is on, and how often it fired.
    pub fn report(&self) -> Vec<Fired> {
        let rules = RULES.iter().zip(self.on).zip(&self.fired);
        rules
            .map(|((rule, on), times)| Fired {
                rule: rule.name,
                about: rule.about,
                on,
                times: times.load(Ordering::Relaxed),
            })
            .collect()
    }
}

/// What a rule did since the device was made.
#[derive(Debug, Clone, Copy)]
pub struct Fired {
    pub rule: &'static str,
    pub about: &'static str,
    pub on: bool,
    pub times: u64,
}

fn position(name: &str) -> Option<usize> {
    RULES.iter().position(|rule| rule.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() -> Result<()> {
        assert!(Rewrites::parse("")?.is_on("copies"));
        assert!(!Rewrites::parse(" -copies,")?.is_on("copies"));
        assert!(!Rewrites::parse("-all")?.look());
        let rules = Rewrites::parse("")?.without(&["flash_decode", "gemm"]);
        assert!(!rules.is_on("attention") && rules.is_on("chains"));
        assert!(Rewrites::parse("copies").is_err());
        assert!(Rewrites::parse("-copy").is_err());
        Ok(())
    }
}
