//! What must hold for a graph on a device.

use std::collections::VecDeque;

use anyhow::Result;
use candle_core::Device;

use crate::bits::differ;
use crate::draw;
use crate::graph::{on_cpu, stepwise, Expect, Graph, Lazy, Node, Outcome, Read, Source, Step};
use crate::input::Rng;
use crate::judge::judge;
use crate::rules::{compare, Rules};
use crate::{gradient, known};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value differs from the CPU's for the same operands.
    Differs,
    /// The gradient differs from the CPU's.
    Gradient,
    /// A lazy run gave other bits than the stepwise one, or exceeded the bounds of inexact rules.
    Lazy,
    /// The CPU accepts the call, the device does not.
    Refused,
    /// The device accepts a call that the CPU refuses.
    Accepted,
    /// The device's code panicked.
    Panicked,
    /// The CPU's result is not the one drawn, which says nothing about the device.
    Invalid,
}

pub struct Failure {
    pub node: usize,
    pub kind: Kind,
    pub message: String,
}

/// Work that shares the device with the lazy run.
#[derive(Clone)]
pub enum Company {
    Alone,
    /// A second graph, whose nodes alternate with the first's.
    Interleaved(Graph),
    /// A second graph on a thread of its own.
    Threaded(Graph),
}

/// How a graph is checked.
pub struct Plan {
    pub company: Company,
    /// Compares the gradients of its ops, too.
    pub gradients: bool,
}

pub struct Case {
    pub graph: Graph,
    pub plan: Plan,
}

impl Case {
    pub fn new(seed: u64) -> Result<Self> {
        let mut rng = Rng::new(!seed);
        let mut other = || draw::graph(rng.next());
        let company = match seed % 8 {
            3 => Company::Interleaved(other()?),
            7 => Company::Threaded(other()?),
            _ => Company::Alone,
        };
        let graph = draw::graph(seed)?;
        let gradients = seed % 5 == 2;
        Ok(Case {
            graph,
            plan: Plan { company, gradients },
        })
    }
}

fn alone(graph: &Graph, device: &Device) -> Read {
    let mut run = Lazy::new(graph, device);
    while run.step() {}
    run.finish()
}

/// The lazy run, beside whatever shares the device.
fn lazy(graph: &Graph, company: &Company, device: &Device) -> Read {
    match company {
        Company::Alone => alone(graph, device),
        Company::Interleaved(other) => {
            let mut runs = (Lazy::new(graph, device), Lazy::new(other, device));
            while runs.0.step() | runs.1.step() {}
            runs.1.finish();
            runs.0.finish()
        }
        Company::Threaded(other) => std::thread::scope(|scope| {
            scope.spawn(|| alone(other, device));
            alone(graph, device)
        }),
    }
}

/// The first failure, if any; calls `seen` for each node compared.
pub fn check(
    graph: &Graph,
    plan: &Plan,
    device: &Device,
    rules: &mut Rules,
    mut seen: impl FnMut(&Node, &Step),
) -> Result<Option<Failure>> {
    let (_, steps) = rules.run(rules.exact(), || stepwise(graph, device))?;
    let steps = steps?;
    for (node, step) in steps.iter().enumerate() {
        let failed = verdict(graph, node, step)?;
        if let Some((kind, message)) = failed {
            return Ok(Some(Failure {
                node,
                kind,
                message,
            }));
        }
        if plan.gradients {
            if let Some(message) = gradient(&graph.nodes[node], step, device)? {
                let kind = Kind::Gradient;
                return Ok(Some(Failure {
                    node,
                    kind,
                    message,
                }));
            }
        }
        seen(&graph.nodes[node], step);
    }
    let mut lists = VecDeque::from([rules.usual()]);
    let mut first = true;
    while let Some(list) = lists.pop_front() {
        let (by, read) = rules.run(list, || lazy(graph, &plan.company, device))?;
        if let Some((node, message)) = compare(graph, &steps, &by, read)? {
            let kind = Kind::Lazy;
            return Ok(Some(Failure {
                node,
                kind,
                message,
            }));
        }
        if std::mem::take(&mut first) {
            lists.extend(rules.others(&by));
        }
    }
    Ok(None)
}

fn gradient(node: &Node, step: &Step, device: &Device) -> Result<Option<String>> {
    let (Source::Op(row, call), Outcome::Value(got)) = (&node.source, &step.got) else {
        return Ok(None);
    };
    if known::gradient_is_wrong(row, call, &step.inputs).is_some()
        || !gradient::applies(row, &step.inputs, got)?
    {
        return Ok(None);
    }
    let compared = gradient::compare(row, call, &step.inputs, device);
    Ok(compared.err().map(|e| format!("{e:#}")))
}

fn verdict(graph: &Graph, at: usize, step: &Step) -> Result<Option<(Kind, String)>> {
    let node = &graph.nodes[at];
    let (row, call) = match &node.source {
        Source::Op(row, call) => (*row, call),
        Source::Leaf(t) => {
            let moved = match &step.got {
                Outcome::Value(got) => differ(t, got)?,
                Outcome::Error(e) | Outcome::Panic(e) => Some(e.clone()),
            };
            return Ok(moved.map(|e| (Kind::Differs, e)));
        }
    };
    let cpu = || on_cpu(row, call, &step.inputs);
    Ok(match (&node.expect, &step.got) {
        (Expect::Panic(expected), Outcome::Panic(e)) if e == expected => None,
        (_, Outcome::Panic(e)) => Some((Kind::Panicked, e.clone())),
        (Expect::Value, Outcome::Value(got)) => match cpu()? {
            Some(Outcome::Value(_)) => match judge(row, call, &step.inputs, got) {
                Ok(()) => None,
                Err(e) => Some((Kind::Differs, format!("{e:#}"))),
            },
            // The operands differ by roundings from those drawn, and the CPU may panic over them.
            Some(Outcome::Panic(e)) if known::cpu_panics(&e).is_some() => None,
            Some(other) => Some((Kind::Invalid, other.value().err().unwrap_or_default())),
            None => Some((Kind::Invalid, "known to be wrong on the CPU".into())),
        },
        (Expect::Value, Outcome::Error(e)) => match cpu()? {
            Some(Outcome::Value(_)) => Some((Kind::Refused, e.clone())),
            _ => Some((Kind::Invalid, e.clone())),
        },
        (Expect::Error, Outcome::Value(got)) => match cpu()? {
            Some(Outcome::Error(e)) => {
                let message = format!("gives {:?}, but the CPU refuses: {e}", got.dims());
                Some((Kind::Accepted, message))
            }
            _ => Some((Kind::Invalid, "the CPU accepts it, too".into())),
        },
        (Expect::Error | Expect::Panic(_), _) => None,
    })
}
