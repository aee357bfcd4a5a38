//! Encodes rewritten ops: allocates their outputs, looks up pipelines and bind groups, and records all dispatches of a submit in one
//! compute pass.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::debug::profile::Timer;
use crate::error::{Error, Result};
use crate::executor::readback::encode_copy;
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::batch::{Flush, MOST_OPS};
use crate::recorder::op::{Op, Ops};
use crate::shader::compile::Signature;
use crate::shader::pipeline_cache::Pipelines;
use crate::shader::PARAMS_SLOT;
use rustc_hash::FxHashMap;

/// Maximum number of cached bind groups. A decode loop needs some hundreds.
const MAX_BIND_GROUPS: usize = 8192;

/// Why an op is not encoded.
enum Stop {
    /// Memory is short until earlier ops of this submit have run.
    MemoryShort,
    /// A browser is still compiling its pipeline.
    Compiling,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// The contents of a bind group: the block id and the offset in bytes of each operand.
type BindGroupKey = SmallVec<[(u64, u64); 7]>;

/// The state of the encode stage. While it is locked, nothing is encoded, so fresh memory may be written as soon as the
/// [submitter](Executor::submitter) is idle.
pub(crate) struct Encoder {
    pub pipelines: Pipelines,
    bind_groups: FxHashMap<(Signature, BindGroupKey), wgpu::BindGroup>,
    /// Set while the device is profiled.
    pub timer: Option<Timer>,
}

impl Encoder {
    pub fn new(pipelines: Pipelines) -> Self {
        Encoder {
            pipelines,
            bind_groups: FxHashMap::default(),
            timer: None,
        }
    }
}

impl Executor {
    /// Returns idle memory to the driver, by a method of the pool, and the number of its bytes.
    pub(crate) fn trim(&self, encoder: &mut Encoder, trim: fn(&Pool) -> u64) -> u64 {
        let bytes = trim(&self.gpu.pool);
        if bytes > 0 {
            // Bind groups hold references to their buffers.
            encoder.bind_groups.clear();
        }
        bytes
    }

    /// Allocates a value. If memory is short, waits for the device, returns idle memory to the driver and tries once more.
    pub(crate) fn allocate(&self, encoder: &mut Encoder, value: &Value, exact: bool) -> Result<()> {
        let first = value.block(exact).map(|_| ());
        let Err(Error::OutOfMemory { .. }) = first else {
            return first;
        };
        if value.has_failed() {
            return first;
        }
        drop(self.submitter());
        self.wait(None)?;
        let pooled = self.trim(encoder, Pool::trim);
        // wgpu frees dropped buffers when it is polled.
        self.wait(None)?;
        match value.block(true) {
            Err(Error::OutOfMemory { requested, .. }) => {
                Err(self.gpu.pool.out_of_memory(requested, pooled))
            }
            other => other.map(|_| ()),
        }
    }

    /// Encodes `ops`, then `end`, and passes the commands to `submit`. Skips ops that fail and ops that need their results, and stores
    /// the first error. Releases the operands of encoded ops. Stops before an op whose pipeline a browser is still compiling, and returns
    /// `false`; `ops` are then those that are left.
    pub(crate) fn encode_all(
        &self,
        encoder: &mut Encoder,
        ops: &mut Ops,
        end: &mut Flush,
        mut submit: impl FnMut(Commands) -> Result<()>,
    ) -> Result<bool> {
        let mut done = 0;
        let mut last = loop {
            let mut commands = Commands::new(&self.device, (ops.len() - done).min(MOST_OPS));
            let mut compiling = false;
            if done < ops.len() {
                let encoded = self.encode_ops(encoder, &mut commands, &mut ops[done..]);
                (done, compiling) = (done + encoded.0, encoded.1);
            }
            if done == ops.len() {
                break commands;
            }
            submit(commands)?;
            if compiling {
                ops.drain(..done);
                return Ok(false);
            }
        };
        for copy in &end.copies {
            if let Err(error) = self
                .allocate(encoder, &copy.source, false)
                .and_then(|()| encode_copy(copy, &mut last.encoder))
            {
                copy.source.fail(&Arc::new(error.clone()));
                self.store_error(error);
            }
        }
        last.submitted = end.submitted.take();
        submit(last)?;
        if !end.copies.is_empty() {
            encoder.pipelines.save();
            self.trim(encoder, Pool::trim_stale);
        }
        Ok(true)
    }

    /// Encodes ops until the parameter slots are used up, a pipeline is missing or memory is short; in the latter case, the ops encoded so
    /// far run first, since they free memory. Returns the number of encoded ops, whose operands are released, and whether the next op's
    /// pipeline is being compiled.
    fn encode_ops(
        &self,
        encoder: &mut Encoder,
        commands: &mut Commands,
        ops: &mut [Box<Op>],
    ) -> (usize, bool) {
        let Commands {
            encoder: commands,
            params,
            names,
            ..
        } = commands;
        let mut timer = encoder.timer.take();
        if let Some(timer) = &mut timer {
            timer.begin_submit(&self.device);
        }
        let mut pass = begin_pass(commands, timer.as_ref());
        let (mut done, mut compiling) = (0, false);
        if !self.immediates {
            params.reserve(PARAMS_SLOT as usize * ops.len().min(MOST_OPS));
        }
        for at in 0..ops.len().min(MOST_OPS) {
            let is_first = names.is_empty();
            let encoded = self.encode(encoder, (&mut pass, params), &ops[at..], is_first);
            let op = &mut ops[at];
            match encoded {
                Ok(()) => {
                    names.push((op.spec.kernel.name, op.spec.op));
                    if let Some(timer) = &mut timer {
                        if timer.add(op) {
                            drop(pass);
                            pass = begin_pass(commands, Some(timer));
                        }
                    }
                }
                Err(Stop::MemoryShort) => break,
                Err(Stop::Compiling) => {
                    compiling = true;
                    break;
                }
                Err(Stop::Failed(error)) => {
                    self.fail_outputs(op, &error);
                    self.store_error(error);
                }
            }
            // Memory without other references is free for the next op's output.
            op.operands.retain(|(value, _)| value.recycle());
            done += 1;
        }
        drop(pass);
        encoder.pipelines.end_submit();
        encoder.timer = timer;
        (done, compiling)
    }

    /// Marks the outputs of an op as failed, so that reading them returns `error`.
    pub(crate) fn fail_outputs(&self, op: &Op, error: &Error) {
        let error = Arc::new(error.clone());
        for (i, (value, _)) in op.operands.iter().enumerate() {
            if op.spec.writes(i) && !value.same(&self.gpu.fault) {
                value.fail(&error);
            }
        }
    }

    /// Encodes the first of `ops`; the others are hints for the precompiler.
    fn encode(
        &self,
        encoder: &mut Encoder,
        (pass, params): (&mut wgpu::ComputePass<'static>, &mut Vec<u8>),
        ops: &[Box<Op>],
        is_first: bool,
    ) -> std::result::Result<(), Stop> {
        let Some(op) = ops.first() else {
            return Ok(());
        };
        let pipeline = encoder
            .pipelines
            .get(&op.spec, ops[1..].iter().map(|op| &op.spec))?;
        let pipeline = pipeline.ok_or(Stop::Compiling)?;
        let mut ids = BindGroupKey::new();
        for (value, start) in &op.operands {
            let id = match value.block(false) {
                Ok(block) => block.id,
                Err(Error::OutOfMemory { .. }) if !value.has_failed() => {
                    if !is_first {
                        return Err(Stop::MemoryShort);
                    }
                    self.allocate(encoder, value, false)?;
                    value.block(false)?.id
                }
                Err(error) => return Err(error.into()),
            };
            ids.push((id, *start));
        }
        if encoder.bind_groups.len() > MAX_BIND_GROUPS {
            encoder.bind_groups.clear();
        }
        let key = (pipeline.signature, ids);
        pass.set_pipeline(&pipeline.pipeline);
        let slot = [params.len() as u32];
        let slot = if self.immediates { &[][..] } else { &slot };
        match encoder.bind_groups.get(&key) {
            Some(group) => pass.set_bind_group(0, group, slot),
            None => {
                let group = self.bind_group(encoder, pipeline.signature, op)?;
                pass.set_bind_group(0, &group, slot);
                encoder.bind_groups.insert(key, group);
            }
        }
        if self.immediates {
            pass.set_immediates(0, &op.slot());
        } else {
            params.extend_from_slice(&op.slot());
        }
        pass.dispatch_workgroups(op.grid[0], op.grid[1], op.grid[2]);
        Ok(())
    }

    fn bind_group(
        &self,
        encoder: &mut Encoder,
        signature: Signature,
        op: &Op,
    ) -> Result<wgpu::BindGroup> {
        let mut entries = Vec::with_capacity(1 + op.operands.len());
        let mut bind = |binding, buffer, offset, size| {
            entries.push(wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: wgpu::BufferSize::new(size),
                }),
            });
        };
        if !self.immediates {
            bind(0, &self.params, 0, PARAMS_SLOT);
        }
        for (binding, (value, start)) in (1..).zip(&op.operands) {
            let block = value.block(false)?;
            let size = self.gpu.pool.binding.min(block.size - start);
            bind(binding, &block.buffer, *start, size);
        }
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &encoder.pipelines.bind_group_layout(signature),
            entries: &entries,
        }))
    }
}

fn begin_pass(
    commands: &mut wgpu::CommandEncoder,
    timer: Option<&Timer>,
) -> wgpu::ComputePass<'static> {
    let pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes: timer.and_then(Timer::timestamp_writes),
    });
    pass.forget_lifetime()
}
