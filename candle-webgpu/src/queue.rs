//! The recorder. An op is plain data until it has been rewritten and is sent to be encoded.

use smallvec::SmallVec;

use crate::buffer::{lock, Value};
use crate::device::Inner;
use crate::error::{Error, Result};
use crate::kernel::copy::Run;
use crate::link::{Kernel, Spec};
use crate::readback::Copy;
use crate::rewrite::graph::Graph;
use crate::rewrite::{copies, Set, COPIES};
use crate::window::Window;

/// Bytes of parameters an op may have: one slot of the uniform buffer, and the largest dynamic-offset
/// alignment that WebGPU allows an adapter to ask for.
pub(crate) const PARAMS_SLOT: u64 = 256;
/// Ops before the first submit after a readback: early, so that the device starts to work.
const FIRST_WINDOW: usize = 8;
/// Ops in later submits.
const WINDOW: usize = 64;
/// The newest ops, which stay recorded at a submit that nothing waits for: tensors still hold what they made, as Rust's variables
/// live to the end of their function, and what follows may become one op with them.
const HELD_BACK: usize = 32;
/// Ops that one submit may have. A rule may make two ops of one.
pub(crate) const MOST_OPS: usize = 2 * (WINDOW + HELD_BACK);

/// `ops` writes the name of each op to stderr as it is encoded.
pub const LOG_VAR: &str = "CANDLE_WEBGPU_LOG";

/// How many workgroups.
#[derive(Debug, Clone, Copy)]
pub enum Grid {
    /// Split into x and y: a kernel numbers its workgroups `wid.y * num_workgroups.x + wid.x` and
    /// guards, since the split rounds up.
    Linear(u64),
    Xyz([u32; 3]),
}

/// A recorded op: plain data.
pub(crate) struct Op {
    pub spec: Spec,
    /// Values, and the byte from which each is bound.
    pub operands: SmallVec<[(Value, u64); 5]>,
    pub params: [u8; PARAMS_SLOT as usize],
    pub grid: [u32; 3],
    /// What it copies, if a copy is all that it does.
    pub run: Option<Run>,
}

/// Boxed, since they are large, and moved often while they are rewritten.
pub(crate) type Ops = Vec<Box<Op>>;

impl Op {
    pub fn new(
        spec: Spec,
        operands: SmallVec<[(Value, u64); 5]>,
        params: &impl bytemuck::NoUninit,
        grid: [u32; 3],
    ) -> Self {
        let mut op = Op {
            spec,
            operands,
            params: [0; PARAMS_SLOT as usize],
            grid,
            run: None,
        };
        op.set_params(params);
        op
    }

    pub fn set_params(&mut self, params: &impl bytemuck::NoUninit) {
        let bytes = bytemuck::bytes_of(params);
        self.params[..bytes.len()].copy_from_slice(bytes);
    }

    /// The parameters as its kernel sees them.
    pub fn params<P: bytemuck::AnyBitPattern>(&self) -> P {
        bytemuck::pod_read_unaligned(&self.params[..size_of::<P>()])
    }

    pub fn is_of(&self, kernel: &'static Kernel) -> bool {
        std::ptr::eq(self.spec.kernel, kernel)
    }
}

pub(crate) struct Recorder {
    pending: Ops,
    /// Ops beyond those held back at which the next of them are sent.
    window: usize,
    /// Ops that may have reported a fault were recorded since the record was last read.
    pub faults: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            pending: Vec::with_capacity(MOST_OPS),
            window: FIRST_WINDOW,
            faults: false,
        }
    }
}

impl Recorder {
    pub fn push(&mut self, op: Op) {
        self.pending.push(Box::new(op));
    }

    #[cfg(test)]
    pub fn take(&mut self) -> Ops {
        std::mem::take(&mut self.pending)
    }
}

impl Inner {
    /// Records one dispatch. Operands are in binding order, from binding 1.
    pub(crate) fn record(
        &self,
        spec: Spec,
        operands: &[Window<'_>],
        params: &[u8],
        grid: Grid,
        run: Option<Run>,
    ) -> Result<()> {
        self.check_lost()?;
        if self.denies(spec.kernel) {
            return Err(Error::Denied {
                kernel: spec.kernel.name,
            });
        }
        let grid = self.split(&spec, grid)?;
        if grid.contains(&0) {
            return Ok(());
        }
        if params.len() > PARAMS_SLOT as usize {
            return Err(Error::OverLimit {
                kernel: spec.name(),
                what: "bytes of parameters",
                needed: params.len() as u64,
                limit: PARAMS_SLOT,
                adapter: self.report.name.clone(),
            });
        }
        let mut slot = [0; PARAMS_SLOT as usize];
        slot[..params.len()].copy_from_slice(params);
        let op = Op {
            spec,
            operands: operands.iter().map(Window::bound).collect(),
            params: slot,
            grid,
            run,
        };
        let faults =
            self.check.is_some() || op.spec.kernel.bindings.iter().any(|b| b.name == "fault");
        let mut recorder = lock(&self.recorder);
        if let Some(last) = recorder.pending.last_mut() {
            if self.rewrites.is_on(COPIES) && copies::join(self, last, &op) {
                self.rewrites.note(COPIES);
                return Ok(());
            }
        }
        recorder.push(op);
        recorder.faults |= faults;
        let held_back = if self.rewrites.look() { HELD_BACK } else { 0 };
        if recorder.pending.len() >= recorder.window + held_back {
            recorder.window = WINDOW;
            let ops = self.rewrite(&mut recorder, held_back);
            self.send(ops)?;
        }
        Ok(())
    }

    pub(crate) fn split(&self, spec: &Spec, grid: Grid) -> Result<[u32; 3]> {
        let most = u64::from(self.limits.max_compute_workgroups_per_dimension);
        match grid {
            Grid::Xyz(xyz) => match xyz.into_iter().max().map(u64::from) {
                Some(n) if n > most => Err(self.too_many(spec, n, most)),
                _ => Ok(xyz),
            },
            Grid::Linear(0) => Ok([0, 1, 1]),
            Grid::Linear(n) => {
                let y = n.div_ceil(most);
                if y > most {
                    return Err(self.too_many(spec, n, most * most));
                }
                Ok([n.div_ceil(y) as u32, y as u32, 1])
            }
        }
    }

    fn too_many(&self, spec: &Spec, needed: u64, limit: u64) -> Error {
        Error::OverLimit {
            kernel: spec.name(),
            what: "workgroups",
            needed,
            limit,
            adapter: self.report.name.clone(),
        }
    }

    /// Hands ops over to be encoded, by a thread where there is one. What went wrong with others before comes back.
    fn send(&self, mut ops: Ops) -> Result<()> {
        let Some(worker) = self.worker.get() else {
            let sent = self.submit(&mut lock(&self.encoder), &mut ops, &[]);
            return sent.map(|_| ());
        };
        self.compile_ahead(&ops);
        for op in &ops {
            op.operands.iter().for_each(|(value, _)| value.note_sent());
        }
        worker.send(ops);
        self.take_error().map_or(Ok(()), Err)
    }

    /// Has pipelines compiled while ops that were sent before are encoded.
    fn compile_ahead(&self, ops: &Ops) {
        if self.ahead.is_cold() {
            self.ahead.want(ops.iter().map(|op| &op.spec));
        }
    }

    /// Waits until all that was sent is submitted.
    pub(crate) fn settle(&self) {
        if let Some(worker) = self.worker.get() {
            worker.settle();
        }
    }

    /// Submits everything recorded.
    pub(crate) fn submit_recorded(&self) -> Result<()> {
        self.flush(&mut lock(&self.recorder), &[]).map(|_| ())
    }

    /// Submits everything recorded; what comes next is rewritten by other rules.
    pub(crate) fn go_by(&self, rules: Set) -> Result<()> {
        let mut recorder = lock(&self.recorder);
        let sent = self.flush(&mut recorder, &[]).map(|_| ());
        self.rewrites.go_by(rules);
        sent
    }

    /// Submits everything recorded, then `copies`.
    pub(crate) fn flush(
        &self,
        recorder: &mut Recorder,
        copies: &[Copy<'_>],
    ) -> Result<Option<wgpu::SubmissionIndex>> {
        if !copies.is_empty() {
            recorder.window = FIRST_WINDOW;
        }
        let mut ops = self.rewrite(recorder, 0);
        self.compile_ahead(&ops);
        self.settle();
        self.submit(&mut lock(&self.encoder), &mut ops, copies)
    }

    /// Takes what is to be submitted, and applies the rules to it.
    fn rewrite(&self, recorder: &mut Recorder, held_back: usize) -> Ops {
        let ops = std::mem::take(&mut recorder.pending);
        let due = ops.len().saturating_sub(held_back);
        let mut graph = Graph::new(ops, due);
        self.rewrites.apply(self, &mut graph);
        let (now, later) = graph.into_ops();
        if self.log {
            now.iter().for_each(|op| eprintln!("{}", op.spec.name()));
        }
        recorder.pending = later;
        match &self.check {
            Some(check) => self.with_checks(check, now),
            None => now,
        }
    }
}
