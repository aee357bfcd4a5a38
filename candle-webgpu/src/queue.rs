//! The recorder, and the only place that submits. An op is plain data until the flush, which assigns
//! memory, resolves pipelines and encodes everything into one compute pass.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use crate::buffer::{lock, Value};
use crate::device::Inner;
use crate::error::{Error, Result};
use crate::kernel::copy::Run;
use crate::link::{Kernel, Spec};
use crate::pipeline::{Pipelines, Signature};
use crate::readback::Copy;
use crate::rewrite::graph::Graph;
use crate::rewrite::{copies, COPIES};
use crate::window::Window;

/// Bytes of parameters an op may have: one slot of the uniform buffer, and the largest dynamic-offset
/// alignment that WebGPU allows an adapter to ask for.
pub(crate) const PARAMS_SLOT: u64 = 256;
/// Ops before the first submit after a readback: early, so that the device starts to work.
const FIRST_WINDOW: usize = 16;
/// Ops in later submits.
const WINDOW: usize = 64;
/// The newest ops, which stay recorded at a submit that nothing waits for: tensors still hold what they made, as Rust's variables
/// live to the end of their function, and what follows may become one op with them.
const HELD_BACK: usize = 32;
/// Submits that may be in flight before recording waits for the oldest.
const IN_FLIGHT: usize = 6;
/// Bytes of uploads after which a submit frees wgpu's staging copies; larger data goes in several writes.
const UPLOAD_WINDOW: u64 = 64 << 20;
/// Bind groups kept; a decode loop needs some hundreds.
const BIND_GROUPS: usize = 8192;

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

/// What a bind group binds: blocks by their ids, and the byte from which each is bound.
type Bound = SmallVec<[(u64, u64); 5]>;

pub(crate) struct Recorder {
    pending: Vec<Op>,
    pipelines: Pipelines,
    bind_groups: HashMap<(Signature, Bound), wgpu::BindGroup>,
    generation: u64,
    params: wgpu::Buffer,
    params_data: Vec<u8>,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    window: usize,
    uploaded: u64,
    /// Ops that may have reported a fault were recorded since the record was last read.
    pub faults: bool,
}

impl Recorder {
    pub fn new(device: &wgpu::Device, adapter: String) -> Self {
        Recorder {
            pending: Vec::with_capacity(WINDOW),
            pipelines: Pipelines::new(device.clone(), adapter),
            bind_groups: HashMap::new(),
            generation: 0,
            params: device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("params"),
                size: PARAMS_SLOT * (WINDOW + HELD_BACK) as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            }),
            params_data: Vec::new(),
            in_flight: VecDeque::new(),
            window: FIRST_WINDOW,
            uploaded: 0,
            faults: false,
        }
    }

    pub fn pipelines(&self) -> usize {
        self.pipelines.len()
    }
}

#[cfg(test)]
impl Recorder {
    pub fn take(&mut self) -> Vec<Op> {
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
        let faults = op.spec.kernel.bindings.iter().any(|b| b.name == "fault");
        let mut recorder = lock(&self.recorder);
        if let Some(last) = recorder.pending.last_mut() {
            if self.rewrites.is_on(COPIES) && copies::join(self, last, &op) {
                self.rewrites.note(COPIES);
                return Ok(());
            }
        }
        recorder.pending.push(op);
        recorder.faults |= faults;
        let held_back = if self.rewrites.look() { HELD_BACK } else { 0 };
        if recorder.pending.len() >= recorder.window + held_back {
            self.submit(&mut recorder, &[], held_back)?;
            recorder.window = WINDOW;
        }
        Ok(())
    }

    pub(crate) fn split(&self, spec: &Spec, grid: Grid) -> Result<[u32; 3]> {
        let most = u64::from(self.limits.max_compute_workgroups_per_dimension);
        match grid {
            Grid::Xyz(xyz) => Ok(xyz),
            Grid::Linear(0) => Ok([0, 1, 1]),
            Grid::Linear(n) => {
                let y = n.div_ceil(most);
                if y > most {
                    return Err(Error::OverLimit {
                        kernel: spec.name(),
                        what: "workgroups",
                        needed: n,
                        limit: most * most,
                        adapter: self.report.name.clone(),
                    });
                }
                Ok([n.div_ceil(y) as u32, y as u32, 1])
            }
        }
    }

    /// Copies host bytes to a fresh value. Waits for nothing: the memory is one that no pending op
    /// uses, since the recorder is locked and pending ops hold theirs.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Value> {
        self.check_lost()?;
        self.pool.check("upload", bytes.len() as u64)?;
        let value = Value::logical(&self.pool, bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(value);
        }
        let mut recorder = lock(&self.recorder);
        // Small data is short-lived (ids, masks); large data is weights, which should not be rounded up.
        self.reserve(&mut recorder, &value, bytes.len() > 1 << 20)?;
        let buffer = &value.block(false)?.buffer;
        let whole = bytes.len() & !3;
        let mut at = 0;
        for chunk in bytes[..whole].chunks(UPLOAD_WINDOW as usize) {
            self.queue.write_buffer(buffer, at, chunk);
            at += chunk.len() as u64;
            recorder.uploaded += chunk.len() as u64;
            if recorder.uploaded >= UPLOAD_WINDOW {
                self.flush(&mut recorder, &[])?;
            }
        }
        if whole < bytes.len() {
            let mut tail = [0; 4];
            tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at, &tail);
            recorder.uploaded += 4;
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(value)
    }

    /// Gives a value memory. Under pressure idle memory goes back to the driver first.
    fn reserve(&self, recorder: &mut Recorder, value: &Value, exact: bool) -> Result<()> {
        match value.block(exact) {
            Err(Error::OutOfMemory { .. }) => {
                self.pool.trim();
                recorder.bind_groups.clear();
                let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
                value.block(true).map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// Submits everything recorded, then `copies`.
    pub(crate) fn flush(
        &self,
        recorder: &mut Recorder,
        copies: &[Copy<'_>],
    ) -> Result<Option<wgpu::SubmissionIndex>> {
        self.submit(recorder, copies, 0)
    }

    /// Submits what is recorded but for the newest ops, then `copies`. An op that fails is left out, and its error returned
    /// after the others went.
    fn submit(
        &self,
        recorder: &mut Recorder,
        copies: &[Copy<'_>],
        held_back: usize,
    ) -> Result<Option<wgpu::SubmissionIndex>> {
        if recorder.pending.is_empty() && copies.is_empty() && recorder.uploaded == 0 {
            return Ok(recorder.in_flight.back().cloned());
        }
        let ops = self.rewrite(recorder, held_back);
        let mut failed = None;
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut dispatches = 0;
        if !ops.is_empty() {
            let mut params_data = std::mem::take(&mut recorder.params_data);
            params_data.clear();
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for op in ops {
                // The op lets go of its operands at the end of this turn: what nothing else holds can
                // be the memory of the next op's output.
                let slot = params_data.len() as u32;
                match self.encode(recorder, &mut pass, &op, slot) {
                    Ok(()) => {
                        params_data.extend_from_slice(&op.params);
                        dispatches += 1;
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            drop(pass);
            if !params_data.is_empty() {
                self.queue.write_buffer(&recorder.params, 0, &params_data);
            }
            recorder.params_data = params_data;
        }
        for copy in copies {
            if let Err(error) = self
                .reserve(recorder, copy.source, false)
                .and_then(|()| copy.encode(&mut encoder))
            {
                failed = failed.or(Some(error));
            }
        }
        let index = self.queue.submit([encoder.finish()]);
        recorder.uploaded = 0;
        self.counters
            .dispatches
            .fetch_add(dispatches, Ordering::Relaxed);
        self.counters.submits.fetch_add(1, Ordering::Relaxed);
        recorder.in_flight.push_back(index.clone());
        if recorder.in_flight.len() > IN_FLIGHT {
            if let Some(oldest) = recorder.in_flight.pop_front() {
                self.wait(oldest)?;
            }
        }
        if !copies.is_empty() {
            recorder.window = FIRST_WINDOW;
            recorder.in_flight.clear();
            recorder.pipelines.save();
        }
        match failed.or_else(|| self.take_error()) {
            Some(error) => Err(error),
            None => Ok(Some(index)),
        }
    }

    /// Takes what is to be submitted, and applies the rules to it.
    fn rewrite(&self, recorder: &mut Recorder, held_back: usize) -> Vec<Op> {
        let ops = std::mem::take(&mut recorder.pending);
        let due = ops.len().saturating_sub(held_back);
        let mut graph = Graph::new(ops, due);
        self.rewrites.apply(self, &mut graph);
        let (now, later) = graph.into_ops();
        if self.log {
            now.iter().for_each(|op| eprintln!("{}", op.spec.name()));
        }
        recorder.pending = later;
        now
    }

    fn encode(
        &self,
        recorder: &mut Recorder,
        pass: &mut wgpu::ComputePass<'_>,
        op: &Op,
        slot: u32,
    ) -> Result<()> {
        let pipeline = recorder.pipelines.get(&op.spec)?;
        let mut ids = Bound::new();
        for (value, start) in &op.operands {
            self.reserve(recorder, value, false)?;
            ids.push((value.block(false)?.id, *start));
        }
        let generation = self.pool.generation.load(Ordering::Relaxed);
        if recorder.generation != generation || recorder.bind_groups.len() > BIND_GROUPS {
            recorder.bind_groups.clear();
            recorder.generation = generation;
        }
        let key = (pipeline.signature, ids);
        if !recorder.bind_groups.contains_key(&key) {
            let group = self.bind_group(recorder, pipeline.signature, op)?;
            recorder.bind_groups.insert(key.clone(), group);
        }
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &recorder.bind_groups[&key], &[slot]);
        pass.dispatch_workgroups(op.grid[0], op.grid[1], op.grid[2]);
        Ok(())
    }

    fn bind_group(
        &self,
        recorder: &mut Recorder,
        signature: Signature,
        op: &Op,
    ) -> Result<wgpu::BindGroup> {
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &recorder.params,
                offset: 0,
                size: wgpu::BufferSize::new(PARAMS_SLOT),
            }),
        }];
        for (i, (value, start)) in op.operands.iter().enumerate() {
            let block = value.block(false)?;
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32 + 1,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &block.buffer,
                    offset: *start,
                    size: wgpu::BufferSize::new(self.binding.min(block.size - start)),
                }),
            });
        }
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: recorder.pipelines.bind_group_layout(signature),
            entries: &entries,
        }))
    }

    pub(crate) fn wait(&self, index: wgpu::SubmissionIndex) -> Result<()> {
        let waited = self.device.poll(wgpu::PollType::Wait {
            submission_index: Some(index),
            timeout: None,
        });
        self.check_lost()?;
        waited
            .map(|_| ())
            .map_err(|e| Error::Validation(e.to_string()))
    }
}
