//! Expression graphs: leaves with values, and calls of the table's rows. Runs them on a device.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};

use crate::bound::Bound;
use crate::judge;
use crate::known;
use crate::op::Row;
use crate::ops::Cx;

/// A row with its operands (earlier nodes) and parameters.
#[derive(Clone, Debug)]
pub struct Call {
    pub args: Vec<usize>,
    pub u: Vec<usize>,
    pub f: Vec<f64>,
    pub to: DType,
}

#[derive(Clone)]
pub enum Source {
    /// Contiguous values on the CPU.
    Leaf(Tensor),
    Op(&'static Row, Call),
}

/// The outcome of a node on the CPU.
#[derive(Clone, PartialEq, Eq)]
pub enum Expect {
    Value,
    /// The call is bad, so the device must return an error, too.
    Error,
    /// Candle panics before it calls a backend, so it may do so on the device, with the same message.
    Panic(String),
}

#[derive(Clone)]
pub struct Node {
    pub source: Source,
    pub expect: Expect,
    /// The lazy run drops the tensor once no later node needs it.
    pub brief: bool,
    /// The bound where inexact rules fired; None if there is none, as for nodes that depend on it.
    pub near: Option<Bound>,
    /// A later node overwrites its storage, so that only the stepwise run sees this value.
    pub overwritten: bool,
}

#[derive(Clone, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
}

pub enum Outcome {
    Value(Tensor),
    Error(String),
    Panic(String),
}

impl Outcome {
    /// With the values on the CPU.
    pub fn fetched(self) -> Self {
        match self {
            Outcome::Value(t) => guarded(|| fetched(&t)),
            other => other,
        }
    }

    pub fn value(self) -> Result<Tensor, String> {
        match self {
            Outcome::Value(t) => Ok(t),
            Outcome::Error(e) => Err(format!("error: {e}")),
            Outcome::Panic(e) => Err(format!("panic: {e}")),
        }
    }
}

static GUARDED: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic will be caught, on this thread or on one of its helpers.
pub fn is_guarded() -> bool {
    GUARDED.load(Ordering::SeqCst) > 0
}

/// Runs `f`; a panic is an outcome like any other.
pub fn guarded(f: impl FnOnce() -> candle_core::Result<Tensor>) -> Outcome {
    GUARDED.fetch_add(1, Ordering::SeqCst);
    let ended = catch_unwind(AssertUnwindSafe(f));
    GUARDED.fetch_sub(1, Ordering::SeqCst);
    match ended {
        Ok(Ok(t)) => Outcome::Value(t),
        // Without the backtrace.
        Ok(Err(e)) => Outcome::Error(e.to_string().lines().next().unwrap_or_default().into()),
        Err(payload) => Outcome::Panic(match payload.downcast_ref::<&str>() {
            Some(text) => (*text).to_owned(),
            None => payload
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_default(),
        }),
    }
}

impl Call {
    /// Applies the row to tensors of any device.
    pub fn on(&self, row: &Row, x: &[Tensor]) -> Outcome {
        let (u, f, to) = (&self.u[..], &self.f[..], self.to);
        guarded(|| (row.apply)(&Cx { x, u, f, to }))
    }
}

/// The values of a tensor on the CPU, contiguous, in their own memory.
pub fn fetched(t: &Tensor) -> candle_core::Result<Tensor> {
    let t = t.to_device(&Device::Cpu)?;
    // The CPU panics where it reads an empty view with an offset (0.11.1).
    if t.elem_count() == 0 {
        return Tensor::zeros(t.shape(), t.dtype(), &Device::Cpu);
    }
    t.force_contiguous()
}

impl Graph {
    pub fn args(&self, at: usize) -> &[usize] {
        match &self.nodes[at].source {
            Source::Leaf(_) => &[],
            Source::Op(_, call) => &call.args,
        }
    }

    pub fn name(&self, at: usize) -> &'static str {
        match &self.nodes[at].source {
            Source::Leaf(_) => "leaf",
            Source::Op(row, _) => row.name,
        }
    }

    fn eval(&self, at: usize, device: &Device, slots: &[Option<Tensor>]) -> Outcome {
        match &self.nodes[at].source {
            // On the CPU it would share memory with the graph, and in-place ops would change it.
            Source::Leaf(t) if device.is_cpu() => guarded(|| t.copy()),
            Source::Leaf(t) => guarded(|| t.to_device(device)),
            Source::Op(row, call) => {
                let x: Option<Vec<Tensor>> = call.args.iter().map(|&a| slots[a].clone()).collect();
                match x {
                    Some(x) => call.on(row, &x),
                    None => Outcome::Error("an operand is missing".into()),
                }
            }
        }
    }

    fn last_use(&self, at: usize) -> usize {
        let users = (at + 1..self.nodes.len()).filter(|&n| self.args(n).contains(&at));
        users.max().unwrap_or(usize::MAX)
    }
}

/// The values of the nodes that are still held at the end of a lazy run.
pub type Read = Vec<Option<Result<Tensor, String>>>;

/// A run that reads nothing back before its end.
pub struct Lazy<'a> {
    graph: &'a Graph,
    device: &'a Device,
    slots: Vec<Option<Tensor>>,
    last: Vec<usize>,
}

impl<'a> Lazy<'a> {
    pub fn new(graph: &'a Graph, device: &'a Device) -> Self {
        let last = (0..graph.nodes.len()).map(|n| graph.last_use(n)).collect();
        Lazy {
            graph,
            device,
            slots: Vec::new(),
            last,
        }
    }

    /// Records the next node; false after the last.
    pub fn step(&mut self) -> bool {
        let at = self.slots.len();
        let Some(node) = self.graph.nodes.get(at) else {
            return false;
        };
        // Whatever is read next would report a bad index, so only the stepwise run makes bad calls.
        let value = match node.expect {
            Expect::Value => self.graph.eval(at, self.device, &self.slots).value().ok(),
            _ => None,
        };
        self.slots.push(value);
        for n in 0..at {
            if self.graph.nodes[n].brief && self.last[n] == at {
                self.slots[n] = None;
            }
        }
        true
    }

    /// Reads back what is still held.
    pub fn finish(self) -> Read {
        let nodes = self.graph.nodes.iter();
        let read = |(t, node): (Option<Tensor>, &Node)| match node.overwritten {
            true => None,
            false => t.map(|t| guarded(|| fetched(&t)).value()),
        };
        self.slots.into_iter().zip(nodes).map(read).collect()
    }
}

/// A node of the stepwise run.
pub struct Step {
    /// What was read back right after the node was computed.
    pub got: Outcome,
    /// What its operands held just before, on the CPU.
    pub inputs: Vec<Tensor>,
}

/// Computes and reads back node by node. Nothing is dropped, so no memory is reused.
pub fn stepwise(graph: &Graph, device: &Device) -> Result<Vec<Step>> {
    let mut slots: Vec<Option<Tensor>> = Vec::new();
    let mut read: Vec<Option<Tensor>> = Vec::new();
    let mut steps = Vec::new();
    for at in 0..graph.nodes.len() {
        let inputs = graph.args(at).iter().map(|&a| read[a].clone());
        let Some(inputs) = inputs.collect::<Option<Vec<_>>>() else {
            // An operand failed, which is reported.
            break;
        };
        let here = graph.eval(at, device, &slots);
        let (slot, got) = match here {
            Outcome::Value(t) => (Some(t.clone()), Outcome::Value(t).fetched()),
            other => (None, other),
        };
        slots.push(slot);
        read.push(match &got {
            Outcome::Value(t) => Some(t.clone()),
            _ => None,
        });
        steps.push(Step { got, inputs });
    }
    // Clears the faults of bad calls before the next run.
    let _ = device.synchronize();
    Ok(steps)
}

/// The call on the CPU. Each operand is contiguous in its own storage, which avoids the CPU's defects with strides and
/// confines in-place ops. Calls that only the CPU refuses are computed in f64. None if `known` lists the call as wrong
/// on the CPU.
pub fn on_cpu(row: &'static Row, call: &Call, x: &[Tensor]) -> Result<Option<Outcome>> {
    if known::cpu_is_wrong(row, call, x).is_some() {
        return Ok(None);
    }
    let x: Vec<Tensor> = x
        .iter()
        .map(fetched)
        .collect::<candle_core::Result<_>>()
        .context("operands of the CPU")?;
    if let Some(sorted) = judge::with_nan(row.judge, &x[0])? {
        return Ok(Some(Outcome::Value(sorted)));
    }
    let outcome = call.on(row, &x).fetched();
    let refused = matches!(outcome, Outcome::Error(_));
    if !refused || known::device_accepts_more(row, call, &x).is_none() {
        return Ok(Some(outcome));
    }
    let dtype = x[0].dtype();
    Ok(Some(match judge::in_f64(row, call, &x)? {
        Outcome::Value(t) => guarded(|| t.to_dtype(dtype)),
        other => other,
    }))
}
