//! Fusion: rules that rewrite recorded ops into fewer or cheaper kernels before they are encoded.
//!
//! Each rule has a file: a [`Rule`] row, and a function that looks for the rule's pattern at one place of the [`Graph`] and returns
//! a [`Rewrite`]. [`RULES`] lists the rows; [`Rewrites::apply`] is the loop that all rules share. To add a rule, write its file and
//! add its row to [`RULES`].

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
mod rules;
mod split_softmax;
#[cfg(test)]
pub(crate) mod testing;
mod tiled_transpose;
mod trace;

pub(crate) use rules::RuleSet;
pub use rules::RULES;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::recorder::gpu::Gpu;
use crossbeam_utils::CachePadded;
use graph::{Graph, Rewrite};

/// A fusion rule: one row of [`RULES`].
pub struct Rule {
    pub name: &'static str,
    /// What it replaces, and by what.
    pub about: &'static str,
    pub enabled: Enabled,
    pub exact: Exact,
    /// Rules whose kernels this one takes as its input; without them it finds nothing. They stand before it in [`RULES`].
    needs: &'static [&'static Rule],
    apply: Apply,
}

/// The adapters on which a rule is on, unless `CANDLE_WEBGPU_REWRITE` says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    Always,
    Never,
    /// Not on software adapters such as llvmpipe: the rule trades work for parallelism or for fewer dispatches, which gain nothing there.
    OnGpu,
}

/// Whether a rule's kernels give the same bits as the ops that they replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// Each number comes from the same operations in the same order.
    Always,
    /// Results of the op of this name, and of ops that depend on it, may be rounded differently.
    Before(&'static str),
}

/// How a rule is applied.
enum Apply {
    /// By the recorder, to each op that is recorded.
    Recording,
    /// To each batch before it is encoded.
    Batch(Scan, Find),
}

/// The places at which [`Find`] is tried, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scan {
    /// The ops that are due: the pattern begins there.
    Due,
    /// The same from the last op to the first.
    DueBackward,
    /// All recorded ops: the pattern ends there, and `find` checks that it begins at an op that is due.
    All,
}

/// Looks for a rule's pattern at one place.
type Find = fn(&Gpu, &Graph, usize) -> Option<Rewrite>;

impl Rule {
    /// The value of `CANDLE_WEBGPU_REWRITE` that turns on this rule and those that it needs, and nothing else.
    pub fn alone(&self) -> String {
        let needs = self.needs.iter().map(|rule| rule.name);
        let rules = needs.chain([self.name]);
        rules.fold("-all".to_string(), |list, rule| list + ",+" + rule)
    }

    pub fn is_exact(&self) -> bool {
        self.exact == Exact::Always
    }
}

impl Apply {
    /// Rewrites a batch as often as the pattern is found in it, and returns how often that was.
    fn run(&self, gpu: &Gpu, graph: &mut Graph) -> u64 {
        let Apply::Batch(scan, find) = self else {
            return 0;
        };
        let places = match scan {
            Scan::Due | Scan::DueBackward => graph.due(),
            Scan::All => graph.all(),
        };
        let mut fired = 0;
        for i in places.clone() {
            let at = match scan {
                Scan::DueBackward => places.end - 1 - i,
                _ => i,
            };
            while let Some(rewrite) = find(gpu, graph, at) {
                if rewrite.specs().any(|spec| gpu.denies_variant(spec)) {
                    break;
                }
                graph.replace(rewrite);
                fired += 1;
            }
        }
        fired
    }
}

/// The rules that are on, and how often each of them fired.
#[derive(Debug)]
pub(crate) struct Rewrites {
    on: AtomicU32,
    fired: CachePadded<[AtomicU64; RULES.len()]>,
}

impl Rewrites {
    pub fn new(on: RuleSet) -> Self {
        Rewrites {
            on: AtomicU32::new(on.bits()),
            fired: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    fn on(&self) -> RuleSet {
        RuleSet::from_bits(self.on.load(Ordering::Relaxed))
    }

    /// Replaces the set of rules that are on.
    pub fn set(&self, on: RuleSet) {
        self.on.store(on.bits(), Ordering::Relaxed);
    }

    pub fn is_on(&self, rule: &Rule) -> bool {
        rules::position(rule.name).is_some_and(|at| self.on().has(at))
    }

    /// Whether any rule rewrites batches.
    pub fn rewrites_batches(&self) -> bool {
        let on = self.on();
        let mut rules = RULES.iter().enumerate();
        rules.any(|(at, rule)| on.has(at) && matches!(rule.apply, Apply::Batch(..)))
    }

    /// Applies the rules that are on to a batch, in the order of [`RULES`].
    pub fn apply(&self, gpu: &Gpu, graph: &mut Graph) {
        let on = self.on();
        graph.set_due(batch_end::due(graph));
        for (at, rule) in RULES.iter().enumerate().filter(|(at, _)| on.has(*at)) {
            let fired = rule.apply.run(gpu, graph);
            self.fired[at].fetch_add(fired, Ordering::Relaxed);
        }
    }

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

/// What a rule has done since the device was made.
#[derive(Debug, Clone, Copy)]
pub struct Fired {
    pub rule: &'static str,
    pub about: &'static str,
    pub on: bool,
    pub times: u64,
}
