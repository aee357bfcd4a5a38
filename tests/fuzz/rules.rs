//! Sets of fusion rules: a graph runs lazily with all rules, with none, and with each rule that fired alone.
//!
//! With exact rules, results must have the bits of the stepwise run. Where an inexact rule fired, nodes that depend on the op that it
//! changes are not compared, except those drawn with a bound (`Node::near`).

use std::collections::BTreeMap;

use anyhow::Result;
use candle_core::Device;
use candle_webgpu::{Exact, Rule, REWRITE_VAR, RULES};

use crate::bits::differ;
use crate::bound::close;
use crate::graph::{Graph, Outcome, Read, Source, Step};

pub struct Rules {
    device: Device,
    usual: String,
    /// How often each rule fired, by its name.
    fired: BTreeMap<&'static str, u64>,
}

/// A list of rules, and those that fired in a run with it.
pub struct By {
    pub list: String,
    fired: Vec<&'static str>,
}

/// Whether one of these rules may round the results of an op differently.
fn changes(fired: &[&str], op: &str) -> bool {
    let mut rules = RULES.iter().filter(|rule| fired.contains(&rule.name));
    rules.any(|rule| matches!(rule.exact, Exact::Before(last) if last == op))
}

impl Rules {
    pub fn new(device: &Device) -> Self {
        // All rules, including those that are off on this adapter or by default.
        let usual = std::env::var(REWRITE_VAR).unwrap_or_else(|_| "+all".into());
        Rules {
            device: device.clone(),
            usual,
            fired: BTreeMap::new(),
        }
    }

    /// The rules of the first lazy run.
    pub fn usual(&self) -> String {
        self.usual.clone()
    }

    /// The same, without inexact rules.
    pub fn exact(&self) -> String {
        let inexact = RULES.iter().filter(|rule| !rule.is_exact());
        inexact.fold(self.usual(), |list, rule| format!("{list},-{}", rule.name))
    }

    /// Lists for further runs after one.
    pub fn others(&self, by: &By) -> Vec<String> {
        if by.fired.is_empty() {
            return Vec::new();
        }
        let fired = RULES.iter().filter(|rule| by.fired.contains(&rule.name));
        let alone = fired.map(Rule::alone);
        std::iter::once("-all".to_owned()).chain(alone).collect()
    }

    /// Runs something with a list of rules.
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

/// The first node of a lazy run that differs from the stepwise run, and how.
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
