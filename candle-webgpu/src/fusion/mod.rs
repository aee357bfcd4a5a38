//! Fusion: rules that rewrite recorded ops into fewer or cheaper kernels before they are encoded.
//!
//! Each rule has a file: a [`Rule`] row, and a function that looks for the rule's pattern at one place of the [`Graph`] and returns
//! a [`Rewrite`]. [`RULES`] lists the rows; [`Rewrites::apply`] is the loop that all rules share. To add a rule, write its file and
//! add its row to [`RULES`].

mod add_norm;
mod attention;
mod attention_mask;
mod batch_end;
pub(crate) mod coalesce_copies;
mod concat;
mod dead_code;
pub(crate) mod elementwise;
mod expr;
mod fused_projections;
mod fused_row;
mod gemm_pair;
pub(crate) mod graph;
mod growing_cache;
mod heads;
mod matmul_epilogue;
mod norm_scale_lines;
mod projection_bias;
mod qk_norm;
mod rms_norm;
mod rms_norm_matmul;
mod rope_attention;
mod rope_kv_cache;
mod rope_qk;
mod rule;
mod rules;
mod shared_block_mask;
mod shared_scale_lines;
mod softmax;
mod split_k;
mod split_softmax;
mod tiled_transpose;
mod trace;

pub use rule::{Enabled, Exact, Rule};
pub(crate) use rules::RuleSet;
pub use rules::RULES;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::recorder::gpu::Gpu;
use crossbeam_utils::CachePadded;
use graph::Graph;
use rule::Apply;

/// The rules that are on, and how often each of them fired.
#[derive(Debug)]
pub(crate) struct Rewrites {
    on: AtomicU32,
    fired: CachePadded<[AtomicU64; RULES.len()]>,
}

impl Rewrites {
    pub fn new(on: RuleSet) -> Self {
        Rewrites {
            on: AtomicU32::new(on.0),
            fired: CachePadded::default(),
        }
    }

    fn on(&self) -> RuleSet {
        RuleSet(self.on.load(Ordering::Relaxed))
    }

    /// Replaces the set of rules that are on.
    pub fn set(&self, on: RuleSet) {
        self.on.store(on.0, Ordering::Relaxed);
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

    /// Counts what a rule did that is applied while ops are recorded.
    pub fn note(&self, rule: &Rule, times: u64) {
        if let Some(at) = rules::position(rule.name) {
            self.fired[at].fetch_add(times, Ordering::Relaxed);
        }
    }

    /// Applies the rules that are on to a batch, in the order of [`RULES`].
    pub fn apply(&self, gpu: &Gpu, graph: &mut Graph) {
        let on = self.on();
        graph.set_due(batch_end::due(graph));
        for (at, rule) in RULES.iter().enumerate().filter(|(at, _)| on.has(*at)) {
            let fired = rule.run(gpu, graph);
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
