//! The rules that rewrite recorded ops, one file each, and which of them are on.

mod attention;
mod caches;
mod cats;
pub(crate) mod chains;
pub(crate) mod copies;
#[cfg(test)]
mod cost;
mod ends;
mod epilogues;
pub(crate) mod graph;
mod lift;
mod norms;
mod prenorms;
mod ropes;
mod rows;
mod siblings;
mod stores;
#[cfg(test)]
pub(crate) mod testing;
mod trace;
mod transposes;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::apart::Apart;
use crate::device::Inner;
use crate::error::{Error, Result};
use graph::Graph;

/// Rules to do without, separated by commas, each behind a minus: `-copies`; `-all` for all of them. A plus turns one on, so
/// `-all,+copies` is that rule alone.
pub const REWRITE_VAR: &str = "CANDLE_WEBGPU_REWRITE";

/// A row of [`RULES`].
pub struct Rule {
    pub name: &'static str,
    /// What it makes of what.
    pub about: &'static str,
    /// Where it is on unless the environment says otherwise.
    pub usual: Usual,
    /// Whether what it makes gives the bits of what it takes: each number is made by the same operations in the same order.
    pub exact: bool,
    /// The kernels that only it records; without one of them the rule is off.
    makes: &'static [&'static str],
    /// The rules whose kernels it takes; without them it does nothing.
    takes: &'static [&'static str],
    /// Rewrites what is about to be encoded; gives the number of times that it fired. None: the rule is applied to each
    /// op as it is recorded.
    rewrite: Option<fn(&Inner, &mut Graph) -> u64>,
}

impl Rule {
    /// What [`REWRITE_VAR`] has to be for this rule alone, but for those that it needs.
    pub fn alone(&self) -> String {
        let rules = self.takes.iter().chain([&self.name]);
        rules.fold("-all".to_string(), |list, rule| list + ",+" + rule)
    }
}

/// Adapters on which a rule is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usual {
    On,
    Off,
    /// Those that run workgroups at the same time: not what computes in software.
    AtOnce,
}

impl Usual {
    fn is_on(self, in_turn: bool) -> bool {
        match self {
            Usual::On => true,
            Usual::Off => false,
            Usual::AtOnce => !in_turn,
        }
    }
}

/// In the order in which they are tried. `stores` is off, since a program that times an op drops what the op gives.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: COPIES,   about: "copies that follow each other in equal steps: one copy", usual: Usual::On, exact: true, makes: &[], takes: &[], rewrite: None },
    Rule { name: "stores", about: "what nobody reads and nobody holds: nothing", usual: Usual::Off, exact: true, makes: &[], takes: &[], rewrite: Some(stores::rewrite) },
    Rule { name: "attention", about: "q k^T, scale, cap, mask, softmax, times v: the kernels of sdpa", usual: Usual::On, exact: false, makes: &["flash", "flash_decode", "flash_merge"], takes: &[], rewrite: Some(attention::rewrite) },
    Rule { name: "cats", about: "copies that do not meet, as those of a concatenation: one kernel", usual: Usual::On, exact: true, makes: &["copy_parts"], takes: &[], rewrite: Some(cats::rewrite) },
    Rule { name: "norms", about: "a sum and its rms_norm: one kernel that writes both", usual: Usual::On, exact: true, makes: &["add_rms_norm"], takes: &[], rewrite: Some(norms::rewrite) },
    Rule { name: "siblings", about: "products of the same few rows with two or three matrices: one kernel", usual: Usual::On, exact: true, makes: &["gemv_siblings", "gemv_siblings_sub32", "gemv_siblings_sub128", "gemv_siblings_alone", "gemv_dot_siblings", "gemv_dot_siblings_sub", "gemv_dot_siblings_many"], takes: &[], rewrite: Some(siblings::rewrite) },
    Rule { name: "ropes",  about: "queries and keys turned by the same angles: one kernel", usual: Usual::On, exact: true, makes: &["rope_pair"], takes: &[], rewrite: Some(ropes::rewrite) },
    Rule { name: "caches", about: "what `ropes` made, and the copies into caches behind it: one kernel", usual: Usual::AtOnce, exact: true, makes: &["rope_caches"], takes: &["cats", "ropes"], rewrite: Some(caches::rewrite) },
    Rule { name: "chains", about: "elementwise ops whose results only the next one reads: one kernel", usual: Usual::On, exact: true, makes: &["chain"], takes: &[], rewrite: Some(chains::rewrite) },
    Rule { name: "epilogues", about: "a product, or two of siblings, and the elementwise ops that read it: one kernel", usual: Usual::On, exact: true, makes: &[], takes: &[], rewrite: Some(epilogues::rewrite) },
    Rule { name: prenorms::NAME, about: "rms_norm of one row and the products that read it: kernels of products that norm their row", usual: Usual::AtOnce, exact: false, makes: &["gemv_normed", "gemv_normed_sub32", "gemv_normed_sub128", "gemv_normed_alone", "gemv_dot_normed", "gemv_dot_normed_sub", "gemv_dot_normed_many"], takes: &[], rewrite: Some(prenorms::rewrite) },
    Rule { name: "rows",   about: "softmax of few long rows: chunks of them, in two kernels", usual: Usual::AtOnce, exact: false, makes: &["softmax_parts", "softmax_join"], takes: &[], rewrite: Some(rows::rewrite) },
    Rule { name: "transposes", about: "transposing copies: the same through tiles in workgroup memory", usual: Usual::On, exact: true, makes: &["transpose", "transpose16"], takes: &[], rewrite: Some(transposes::rewrite) },
];

pub(crate) const COPIES: &str = "copies";

/// What the environment says of them.
pub(crate) fn from_env() -> String {
    std::env::var(REWRITE_VAR).unwrap_or_default()
}

/// Rules as bits, by their places in [`RULES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set(u32);

impl Set {
    /// Of a list as [`REWRITE_VAR`] has it: all that are usual but those that it turns off.
    pub fn parse(list: &str, in_turn: bool) -> Result<Self> {
        let usual = RULES.iter().map(|rule| rule.usual.is_on(in_turn));
        let mut on = Set(usual
            .enumerate()
            .fold(0, |on, (at, usual)| on | u32::from(usual) << at));
        for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            if name == "-all" {
                on = Set(0);
                continue;
            }
            let (off, plus) = (name.strip_prefix('-'), name.strip_prefix('+'));
            let at = off.or(plus).and_then(position);
            let at = at.ok_or_else(|| Error::UnknownFeature {
                name: name.to_string(),
                known: RULES
                    .iter()
                    .map(|r| format!("-{}, ", r.name))
                    .collect::<String>()
                    + "-all",
            })?;
            match plus {
                Some(_) => on.0 |= 1 << at,
                None => on.0 &= !(1 << at),
            }
        }
        Ok(on)
    }

    /// Those that need none of these kernels.
    pub fn without(self, denied: &[&str]) -> Self {
        let needs = |rule: &Rule| rule.makes.iter().any(|kernel| denied.contains(kernel));
        let denied = RULES.iter().enumerate().filter(|(_, rule)| needs(rule));
        Set(denied.fold(self.0, |on, (at, _)| on & !(1 << at)))
    }

    fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}

/// Which rules are on, and how often each of them fired.
#[derive(Debug)]
pub(crate) struct Rewrites {
    on: AtomicU32,
    fired: Apart<[AtomicU64; RULES.len()]>,
}

impl Rewrites {
    pub fn new(on: Set) -> Self {
        Rewrites {
            on: AtomicU32::new(on.0),
            fired: Apart(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    fn on(&self) -> Set {
        Set(self.on.load(Ordering::Relaxed))
    }

    /// Goes by these from here on.
    pub fn go_by(&self, on: Set) {
        self.on.store(on.0, Ordering::Relaxed);
    }

    pub fn is_on(&self, name: &str) -> bool {
        position(name).is_some_and(|at| self.on().has(at))
    }

    pub fn note(&self, name: &str) {
        if let Some(rule) = position(name) {
            self.fired[rule].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether any rule looks at what is recorded.
    pub fn look(&self) -> bool {
        let on = self.on();
        let mut rules = RULES.iter().enumerate();
        rules.any(|(at, rule)| on.has(at) && rule.rewrite.is_some())
    }

    /// Applies the rules that are on.
    pub fn apply(&self, device: &Inner, graph: &mut Graph) {
        let on = self.on();
        graph.set_due(ends::due(graph));
        for (at, rule) in RULES.iter().enumerate() {
            if let Some(rewrite) = rule.rewrite.filter(|_| on.has(at)) {
                self.fired[at].fetch_add(rewrite(device, graph), Ordering::Relaxed);
            }
        }
    }

    /// Rules by name: whether each is on, and how often it fired.
    pub fn report(&self) -> Vec<Fired> {
        let on = self.on();
        let rules = RULES.iter().enumerate().zip(self.fired.iter());
        rules
            .map(|((at, rule), times)| Fired {
                rule: rule.name,
                about: rule.about,
                on: on.has(at),
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

    fn rules(list: &str) -> Result<Rewrites> {
        Set::parse(list, false).map(Rewrites::new)
    }

    #[test]
    fn names() -> Result<()> {
        assert!(rules("")?.is_on("copies"));
        assert!(!rules(" -copies,")?.is_on("copies"));
        assert!(!rules("-all")?.look());
        let alone = rules("-all,+cats")?;
        let on = alone.report().into_iter().filter(|rule| rule.on);
        assert_eq!(on.map(|rule| rule.rule).collect::<Vec<_>>(), ["cats"]);
        let rules = Rewrites::new(Set::parse("", false)?.without(&["flash_decode", "gemm"]));
        assert!(!rules.is_on("attention") && rules.is_on("chains"));
        let caches = RULES.iter().find(|rule| rule.name == "caches");
        assert_eq!(
            caches.map(Rule::alone).as_deref(),
            Some("-all,+cats,+ropes,+caches")
        );
        assert!(Set::parse("copies", false).is_err());
        assert!(Set::parse("-copy", false).is_err());
        Ok(())
    }
}
