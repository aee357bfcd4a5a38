//! Sets of the recorder's rules: a graph is run lazily by all, by none, and by each alone of those that fired.
//!
//! What exact rules make has to have the bits of the stepwise run, in which no other rules are on. Where a rule that is not exact fired,
//! what comes behind ops that it changes is left out, but for nodes that were drawn to be within bounds of it (`Node::near`).

use std::collections::BTreeMap;

use anyhow::Result;
use candle_core::Device;
use candle_webgpu::{Rule, REWRITE_VAR, RULES};

use crate::bits::differ;
use crate::bound::close;
use crate::graph::{Graph, Outcome, Read, Source, Step};

pub struct Rules {
    device: Device,
    usual: String,
    /// How often each rule fired, by its name.
    fired: BTreeMap<&'static str, u64>,
}

/// A list of rules, and those that fired in a run by it.
pub struct By {
    pub list: String,
    fired: Vec<&'static str>,
}

/// Rules that are not exact, and the op from which on there are other bits.
const INEXACT: [(&str, &str); 3] = [
    ("attention", "softmax_last_dim"),
    ("rows", "softmax_last_dim"),
    ("prenorms", "rms_norm"),
];

/// Whether an op has other bits where these rules fired.
fn changes(fired: &[&str], op: &str) -> bool {
    fired.iter().any(|name| {
        let known = INEXACT.iter().find(|(rule, _)| rule == name);
        let exact = RULES.iter().any(|rule| rule.name == *name && rule.exact);
        known.is_some_and(|(_, of)| *of == op) || known.is_none() && !exact
    })
}

impl Rules {
    pub fn new(device: &Device) -> Self {
        // A graph that lets go of a result is a program that does not want it; some rules are off where workgroups run in turn.
        let usual = std::env::var(REWRITE_VAR)
            .unwrap_or_else(|_| "+dead_code,+split_softmax,+rms_norm_matmul,+rope_kv_cache".into());
        Rules {
            device: device.clone(),
            usual,
            fired: BTreeMap::new(),
        }
    }

    /// What the first lazy run goes by.
    pub fn usual(&self) -> String {
        self.usual.clone()
    }

    /// The same, without rules that are not exact.
    pub fn exact(&self) -> String {
        let inexact = RULES.iter().filter(|rule| !rule.exact);
        inexact.fold(self.usual(), |list, rule| format!("{list},-{}", rule.name))
    }

    /// Lists for more runs after one.
    pub fn others(&self, by: &By) -> Vec<String> {
        if by.fired.is_empty() {
            return Vec::new();
        }
        let fired = RULES.iter().filter(|rule| by.fired.contains(&rule.name));
        let alone = fired.map(Rule::alone);
        std::iter::once("-all".to_owned()).chain(alone).collect()
    }

    /// Runs something by a list.
    pub fn run<T>(&mut self, list: String, run: impl FnOnce() -> T) -> Result<(By, T)> {
        let Ok(device) = self.device.as_webgpu_device() else {
            let fired = Vec::new();
            return Ok((By { list, fired }, run()));
        };
        let runtime = device.runtime();
        runtime.rewrite_by(&list)?;
        let before = runtime.rewrites();
        let value = run();
        let mut fired = Vec::new();
        for (before, after) in before.into_iter().zip(runtime.rewrites()) {
            let times = after.times - before.times;
            if times > 0 {
                fired.push(after.rule);
                *self.fired.entry(after.rule).or_default() += times;
            }
        }
        Ok((By { list, fired }, value))
    }

    pub fn print(&self) {
        let times = |name| self.fired.get(name).copied().unwrap_or_default();
        let rules = RULES
            .iter()
            .map(|r| format!("{} {}", r.name, times(r.name)));
        println!("rules fired: {}", rules.collect::<Vec<_>>().join(", "));
    }
}

/// The first node of a lazy run that is not as the stepwise run has it, and how.
pub fn compare(
    graph: &Graph,
    steps: &[Step],
    by: &By,
    read: Read,
) -> Result<Option<(usize, String)>> {
    let mut behind: Vec<bool> = Vec::new();
    for (node, (read, step)) in read.into_iter().zip(steps).enumerate() {
        let changed =
            matches!(&graph.nodes[node].source, Source::Op(row, _) if changes(&by.fired, row.name));
        let depends = changed || graph.args(node).iter().any(|&n| behind[n]);
        behind.push(depends);
        let Outcome::Value(stepped) = &step.got else {
            continue;
        };
        let message = match read {
            None => None,
            Some(Err(e)) => Some(e),
            Some(Ok(t)) if !depends => differ(stepped, &t)?,
            Some(Ok(t)) => match graph.nodes[node].near {
                Some(bound) => close(stepped, &t, bound).err().map(|e| e.to_string()),
                None => None,
            },
        };
        if let Some(message) = message {
            return Ok(Some((
                node,
                format!("{REWRITE_VAR}={}: {message}", by.list),
            )));
        }
    }
    Ok(None)
}
