//! The rules that rewrite recorded ops, one file each, and which of them are on.

mod add_rms_norm;
mod attention;
mod batch_end;
pub(crate) mod coalesce_copies;
mod concat;
#[cfg(test)]
mod cost;
mod dead_code;
pub(crate) mod elementwise;
mod expr;
mod fused_projections;
pub(crate) mod graph;
mod matmul_epilogue;
mod rms_norm_matmul;
mod rope_kv_cache;
mod rope_qk;
mod split_softmax;
#[cfg(test)]
pub(crate) mod testing;
mod tiled_transpose;
mod trace;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::recorder::gpu::Gpu;
use crossbeam_utils::CachePadded;
use graph::Graph;

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
    rewrite: Option<fn(&Gpu, &mut Graph) -> u64>,
}

impl Rule {
    /// What `CANDLE_WEBGPU_REWRITE` has to be for this rule alone, but for those that it needs.
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
    fn is_on(self, software: bool) -> bool {
        match self {
            Usual::On => true,
            Usual::Off => false,
            Usual::AtOnce => !software,
        }
    }
}

/// In the order in which they are tried. `dead_code` is off, since a program that times an op drops what the op gives.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    Rule { name: COALESCE_COPIES,   about: "copies that follow each other in equal steps: one copy", usual: Usual::On, exact: true, makes: &[], takes: &[], rewrite: None },
    Rule { name: "dead_code", about: "what nobody reads and nobody holds: nothing", usual: Usual::Off, exact: true, makes: &[], takes: &[], rewrite: Some(dead_code::rewrite) },
    Rule { name: "attention", about: "q k^T, scale, cap, mask, softmax, times v: the kernels of sdpa", usual: Usual::On, exact: false, makes: &["flash", "flash_decode", "flash_merge"], takes: &[], rewrite: Some(attention::rewrite) },
    Rule { name: "concat", about: "copies that do not meet, as those of a concatenation: one kernel", usual: Usual::On, exact: true, makes: &["concat"], takes: &[], rewrite: Some(concat::rewrite) },
    Rule { name: "add_rms_norm", about: "a sum and its rms_norm: one kernel that writes both", usual: Usual::On, exact: true, makes: &["add_rms_norm"], takes: &[], rewrite: Some(add_rms_norm::rewrite) },
    Rule { name: "fused_projections", about: "products of the same few rows with two or three matrices: one kernel", usual: Usual::On, exact: true, makes: &["gemv_projections", "gemv_projections_sub32", "gemv_projections_sub128", "gemv_projections_alone", "gemv_dot_projections", "gemv_dot_projections_sub", "gemv_dot_projections_many"], takes: &[], rewrite: Some(fused_projections::rewrite) },
    Rule { name: "rope_qk",  about: "queries and keys turned by the same angles: one kernel", usual: Usual::On, exact: true, makes: &["rope_qk"], takes: &[], rewrite: Some(rope_qk::rewrite) },
    Rule { name: "rope_kv_cache", about: "what `rope_qk` made, and the copies into caches behind it: one kernel", usual: Usual::AtOnce, exact: true, makes: &["rope_kv_cache"], takes: &["concat", "rope_qk"], rewrite: Some(rope_kv_cache::rewrite) },
    Rule { name: "elementwise", about: "elementwise ops whose results only the next one reads: one kernel", usual: Usual::On, exact: true, makes: &["fused_elementwise"], takes: &[], rewrite: Some(elementwise::rewrite) },
    Rule { name: "matmul_epilogue", about: "a product, or two of projections, and the elementwise ops that read it: one kernel", usual: Usual::On, exact: true, makes: &[], takes: &[], rewrite: Some(matmul_epilogue::rewrite) },
    Rule { name: rms_norm_matmul::NAME, about: "rms_norm of one row and the products that read it: kernels of products that norm their row", usual: Usual::AtOnce, exact: false, makes: &["gemv_normed", "gemv_normed_sub32", "gemv_normed_sub128", "gemv_normed_alone", "gemv_dot_normed", "gemv_dot_normed_sub", "gemv_dot_normed_many"], takes: &[], rewrite: Some(rms_norm_matmul::rewrite) },
    Rule { name: "split_softmax",   about: "softmax of few long rows: chunks of them, in two kernels", usual: Usual::AtOnce, exact: false, makes: &["softmax_split", "softmax_merge"], takes: &[], rewrite: Some(split_softmax::rewrite) },
    Rule { name: "tiled_transpose", about: "transposing copies: the same through tiles in workgroup memory", usual: Usual::On, exact: true, makes: &["transpose", "transpose16"], takes: &[], rewrite: Some(tiled_transpose::rewrite) },
];

pub(crate) const COALESCE_COPIES: &str = "coalesce_copies";

/// Rules as bits, by their places in [`RULES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set(u32);

impl Set {
    pub const NONE: Set = Set(0);

    pub fn is_on(self, name: &str) -> bool {
        position(name).is_some_and(|at| self.has(at))
    }

    /// Of a list as `CANDLE_WEBGPU_REWRITE` has it: all that are usual but those that it turns off.
    pub fn parse(list: &str, software: bool) -> Result<Self> {
        let usual = RULES.iter().map(|rule| rule.usual.is_on(software));
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
    pub fn without(self, denied: &[String]) -> Self {
        // `kernel` or `kernel.variant`.
        let denies = |kernel: &str| denied.iter().any(|d| d.split('.').next() == Some(kernel));
        let needs = |rule: &Rule| rule.makes.iter().any(|kernel| denies(kernel));
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
    fired: CachePadded<[AtomicU64; RULES.len()]>,
}

impl Rewrites {
    pub fn new(on: Set) -> Self {
        Rewrites {
            on: AtomicU32::new(on.0),
            fired: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))),
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

    /// Whether any rule looks at what is recorded.
    pub fn look(&self) -> bool {
        let on = self.on();
        let mut rules = RULES.iter().enumerate();
        rules.any(|(at, rule)| on.has(at) && rule.rewrite.is_some())
    }

    /// Applies the rules that are on.
    pub fn apply(&self, device: &Gpu, graph: &mut Graph) {
        let on = self.on();
        graph.rules = on;
        graph.set_due(batch_end::due(graph));
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
        assert!(rules("")?.is_on("coalesce_copies"));
        assert!(!rules(" -coalesce_copies,")?.is_on("coalesce_copies"));
        assert!(!rules("-all")?.look());
        let alone = rules("-all,+concat")?;
        let on = alone.report().into_iter().filter(|rule| rule.on);
        assert_eq!(on.map(|rule| rule.rule).collect::<Vec<_>>(), ["concat"]);
        let rules =
            Rewrites::new(Set::parse("", false)?.without(&["flash_decode".into(), "gemm".into()]));
        assert!(!rules.is_on("attention") && rules.is_on("elementwise"));
        let caches = RULES.iter().find(|rule| rule.name == "rope_kv_cache");
        assert_eq!(
            caches.map(Rule::alone).as_deref(),
            Some("-all,+concat,+rope_qk,+rope_kv_cache")
        );
        assert!(Set::parse("coalesce_copies", false).is_err());
        assert!(Set::parse("-copy", false).is_err());
        Ok(())
    }
}
