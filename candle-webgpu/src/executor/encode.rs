//! From rewritten ops to commands: memory is assigned, pipelines and bind groups are looked up, and everything goes into one compute
//! pass. What is encoded is submitted in the same order.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::debug::profile::Timer;
use crate::error::{Error, Result};
use crate::executor::readback::encode_copy;
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::fusion::graph::writes;
use crate::memory::buffer::Value;
use crate::recorder::batch::{Copy, MOST_OPS};
use crate::recorder::op::{Op, Ops};
use crate::shader::compile::Signature;
use crate::shader::pipeline_cache::Pipelines;
use crate::shader::PARAMS_SLOT;
use crate::util::lock;
use rustc_hash::FxHashMap;

/// Bytes of uploads after which a submit frees wgpu's staging copies; larger data goes in several writes.
const UPLOAD_CHUNK: u64 = 64 << 20;
/// Bind groups kept; a decode loop needs some hundreds.
const BIND_GROUPS: usize = 8192;

/// What a bind group binds: blocks by their ids, and the byte from which each is bound.
type Bound = SmallVec<[(u64, u64); 7]>;

/// What encoding needs and keeps. Whoever has locked it may take memory from the pool, and write to it at once when the
/// [sender](Executor::sender) has submitted what is encoded.
pub(crate) struct Encoder {
    pipelines: Pipelines,
    bind_groups: FxHashMap<(Signature, Bound), wgpu::BindGroup>,
    generation: u64,
    /// The device is being profiled.
    pub timer: Option<Timer>,
}

impl Encoder {
    pub fn new(pipelines: Pipelines) -> Self {
        Encoder {
            pipelines,
            bind_groups: FxHashMap::default(),
            generation: 0,
            timer: None,
        }
    }

    pub fn pipelines(&self) -> usize {
        self.pipelines.len()
    }

    /// Keeps what was compiled for the next run.
    pub fn save(&mut self) {
        self.pipelines.save();
    }

    pub fn pack_f16(&mut self, packs: bool) {
        self.pipelines.pack_f16(packs);
    }
}

impl Executor {
    /// Copies host bytes to a fresh value. The memory is one that no recorded op uses: those hold theirs or have none yet.
    pub(crate) fn upload_bytes(&self, bytes: &[u8], may_wait: bool) -> Result<Value> {
        self.check_lost()?;
        self.gpu.pool.check("upload", bytes.len() as u64)?;
        let value = Value::logical(&self.gpu.pool, bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(value);
        }
        // Small data is short-lived (ids, masks); large data is weights, which should not be rounded up.
        let exact = bytes.len() > 1 << 20;
        let mut encoder = lock(&self.encoder);
        match may_wait {
            true => self.reserve(&mut encoder, &value, exact)?,
            false => value.block(exact).map(|_| ())?,
        }
        let buffer = &value.block(false)?.buffer;
        let mut sender = self.sender();
        let whole = bytes.len() & !3;
        let mut at = 0;
        for chunk in bytes[..whole].chunks(UPLOAD_CHUNK as usize) {
            self.queue.write_buffer(buffer, at, chunk);
            at += chunk.len() as u64;
            sender.uploaded += chunk.len() as u64;
            if sender.uploaded >= UPLOAD_CHUNK {
                self.submit_commands(&mut sender, Commands::new(&self.device, 0))?;
            }
        }
        if whole < bytes.len() {
            let mut tail = [0; 4];
            tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at, &tail);
            sender.uploaded += 4;
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(value)
    }

    /// Gives a value memory. Where there is none, all that was submitted is waited for and idle memory given back to the driver
    /// before the last try.
    fn reserve(&self, encoder: &mut Encoder, value: &Value, exact: bool) -> Result<()> {
        let first = value.block(exact).map(|_| ());
        let Err(Error::OutOfMemory { .. }) = first else {
            return first;
        };
        if value.has_failed() {
            return first;
        }
        drop(self.sender());
        self.wait(None)?;
        let pooled = self.gpu.pool.trim();
        encoder.bind_groups.clear();
        // wgpu frees what was dropped when it is polled.
        self.wait(None)?;
        match value.block(true) {
            Err(Error::OutOfMemory { requested, .. }) => {
                Err(self.gpu.pool.out_of_memory(requested, pooled))
            }
            other => other.map(|_| ()),
        }
    }

    /// Encodes `ops`, then `copies`, and hands commands to `send`. An op that fails is left out, and so is what needs its result; the
    /// first error is returned after the others went. The ops have let go of their memory then.
    pub(crate) fn encode_all(
        &self,
        encoder: &mut Encoder,
        ops: &mut Ops,
        copies: &[Copy],
        mut send: impl FnMut(Commands) -> Result<()>,
    ) -> Result<()> {
        let (mut done, mut failed) = (0, None);
        let mut last = loop {
            let mut commands = Commands::new(&self.device, (ops.len() - done).min(MOST_OPS));
            if done < ops.len() {
                done += self.encode_ops(encoder, &mut commands, &mut ops[done..], &mut failed);
            }
            if done == ops.len() {
                break commands;
            }
            send(commands)?;
        };
        for copy in copies {
            if let Err(error) = self
                .reserve(encoder, &copy.source, false)
                .and_then(|()| encode_copy(copy, &mut last.commands))
            {
                copy.source.fail(&Arc::new(error.clone()));
                failed = failed.or(Some(error));
            }
        }
        send(last)?;
        if !copies.is_empty() {
            encoder.pipelines.save_when_quiet();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Encodes ops, at most as many as there are slots of parameters, and ends before one for which there is no memory while
    /// there are others whose memory it may get once they are done. Gives how many are over; they have let go of their memory.
    fn encode_ops(
        &self,
        encoder: &mut Encoder,
        commands: &mut Commands,
        ops: &mut [Box<Op>],
        failed: &mut Option<Error>,
    ) -> usize {
        let Commands {
            commands,
            params,
            names,
        } = commands;
        let mut timer = encoder.timer.take();
        if let Some(timer) = &mut timer {
            timer.open(&self.device);
        }
        let mut pass = begin(commands, timer.as_ref());
        let mut done = 0;
        if !self.immediates {
            params.reserve(PARAMS_SLOT as usize * ops.len().min(MOST_OPS));
        }
        for at in 0..ops.len().min(MOST_OPS) {
            let encoded = self.encode(encoder, &mut pass, &ops[at..], params, names.len());
            let op = &mut ops[at];
            match encoded {
                Ok(()) => {
                    names.push((op.spec.kernel.name, op.spec.op));
                    if let Some(timer) = &mut timer {
                        if timer.note(op) {
                            drop(pass);
                            pass = begin(commands, Some(timer));
                        }
                    }
                }
                Err(None) => break,
                Err(Some(error)) => {
                    self.fail(op, &error);
                    *failed = failed.take().or(Some(error));
                }
            }
            // What nothing else holds can be the memory of the next op's output.
            op.operands.retain(|(value, _)| value.retire());
            done += 1;
        }
        drop(pass);
        encoder.pipelines.encoded();
        encoder.timer = timer;
        done
    }

    /// Nobody is to take what this op should have written for what it should be.
    pub(crate) fn fail(&self, op: &Op, error: &Error) {
        let error = Arc::new(error.clone());
        for (i, (value, _)) in op.operands.iter().enumerate() {
            if writes(&op.spec, i) && !value.same(&self.gpu.fault) {
                value.fail(&error);
            }
        }
    }

    /// Encodes the first of `ops` behind those `before` it; the others are to follow. No error means that there is no memory for it,
    /// but there may be once what was encoded before it is done.
    fn encode(
        &self,
        encoder: &mut Encoder,
        pass: &mut wgpu::ComputePass<'_>,
        ops: &[Box<Op>],
        params: &mut Vec<u8>,
        before: usize,
    ) -> std::result::Result<(), Option<Error>> {
        let Some((op, behind)) = ops.split_first() else {
            return Ok(());
        };
        let behind = behind.iter().map(|op| &op.spec);
        let pipeline = encoder.pipelines.get(&op.spec, behind)?;
        let mut ids = Bound::new();
        for (value, start) in &op.operands {
            let id = match value.block(false) {
                Ok(block) => block.id,
                Err(Error::OutOfMemory { .. }) if !value.has_failed() => {
                    if before > 0 {
                        return Err(None);
                    }
                    self.reserve(encoder, value, false)?;
                    value.block(false)?.id
                }
                Err(error) => return Err(Some(error)),
            };
            ids.push((id, *start));
        }
        let generation = self.gpu.pool.generation.load(Ordering::Relaxed);
        if encoder.generation != generation || encoder.bind_groups.len() > BIND_GROUPS {
            encoder.bind_groups.clear();
            encoder.generation = generation;
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
        if !self.immediates {
            entries.push(wgpu::BindGroupEntry {
                binding: 0,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &self.params,
                    offset: 0,
                    size: wgpu::BufferSize::new(PARAMS_SLOT),
                }),
            });
        }
        for (i, (value, start)) in op.operands.iter().enumerate() {
            let block = value.block(false)?;
            entries.push(wgpu::BindGroupEntry {
                binding: i as u32 + 1,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &block.buffer,
                    offset: *start,
                    size: wgpu::BufferSize::new(self.gpu.pool.binding.min(block.size - start)),
                }),
            });
        }
        Ok(self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &encoder.pipelines.bind_group_layout(signature),
            entries: &entries,
        }))
    }
}

fn begin(commands: &mut wgpu::CommandEncoder, timer: Option<&Timer>) -> wgpu::ComputePass<'static> {
    let pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes: timer.and_then(Timer::writes),
    });
    pass.forget_lifetime()
}
