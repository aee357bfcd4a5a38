//! What a rule is, and the loop that all rules share.

use crate::fusion::graph::{Graph, Rewrite};
use crate::recorder::gpu::Gpu;
use crate::shader::Kernel;

/// A fusion rule: one row of [`RULES`](crate::RULES).
pub struct Rule {
    pub name: &'static str,
    /// What it replaces, and by what.
    pub about: &'static str,
    pub enabled: Enabled,
    pub exact: Exact,
    /// Rules whose kernels this one takes as its input; without them it finds nothing. They stand before it in [`RULES`](crate::RULES).
    pub(super) needs: &'static [&'static Rule],
    /// The kernels of the ops at which it is tried; none stands for all.
    pub(super) at: &'static [&'static Kernel],
    pub(super) apply: Apply,
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
pub(super) enum Apply {
    /// By the recorder, to each op that is recorded.
    Recording,
    /// To each batch before it is encoded.
    Batch(Scan, Find),
}

/// The places of a batch at which [`Find`] is tried, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    /// The ops that are due: the pattern begins there.
    Due,
    /// The same from the last op to the first.
    DueBackward,
    /// All recorded ops: the pattern ends there, and `find` checks that it begins at an op that is due.
    All,
}

/// Looks for a rule's pattern at one place. It need not check whether a new op [`aliases`](Rewrite::aliases) a value.
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

    /// Rewrites a batch as often as the pattern is found in it, and returns how often that was.
    pub(super) fn run(&self, gpu: &Gpu, graph: &mut Graph) -> u64 {
        let Apply::Batch(scan, find) = self.apply else {
            return 0;
        };
        let mut places = match scan {
            Scan::Due | Scan::DueBackward => graph.due(),
            Scan::All => graph.all(),
        };
        let takes = |kernel| self.at.is_empty() || self.at.contains(&kernel);
        let allowed = |rewrite: &Rewrite| {
            !rewrite.aliases() && !rewrite.specs().any(|spec| gpu.denies_variant(spec))
        };
        let mut fired = 0;
        loop {
            let suits = |at: &usize| graph.kernel(*at).is_some_and(takes);
            let next = match scan {
                Scan::DueBackward => places.rfind(suits),
                _ => places.find(suits),
            };
            let Some(at) = next else {
                return fired;
            };
            while graph.kernel(at).is_some_and(takes) {
                let Some(rewrite) = find(gpu, graph, at).filter(allowed) else {
                    break;
                };
                graph.replace(rewrite);
                fired += 1;
            }
        }
    }
}
