//! From recorded ops to a submit, and the only place that submits: memory is assigned, pipelines and bind groups are looked up,
//! and everything goes into one compute pass.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::ahead::Ahead;
use crate::buffer::{lock, Value};
use crate::compile::Signature;
use crate::device::Inner;
use crate::error::{Error, Result};
use crate::hash::Map;
use crate::pipeline::Pipelines;
use crate::profile::{Timer, TICKS};
use crate::queue::{Op, Ops, MOST_OPS, PARAMS_SLOT};
use crate::readback::Copy;

/// Submits that may be in flight before encoding waits for the oldest.
const IN_FLIGHT: usize = 6;
/// Bytes of uploads after which a submit frees wgpu's staging copies; larger data goes in several writes.
const UPLOAD_WINDOW: u64 = 64 << 20;
/// Bind groups kept; a decode loop needs some hundreds.
const BIND_GROUPS: usize = 8192;

/// What a bind group binds: blocks by their ids, and the byte from which each is bound.
type Bound = SmallVec<[(u64, u64); 5]>;

/// What encoding needs and keeps. Whoever has locked it may take memory from the pool and write to it at once: nothing is
/// encoded that has not been submitted.
pub(crate) struct Encoder {
    pipelines: Pipelines,
    bind_groups: Map<(Signature, Bound), wgpu::BindGroup>,
    generation: u64,
    params: wgpu::Buffer,
    params_data: Vec<u8>,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    uploaded: u64,
    /// The device is being profiled.
    pub timer: Option<Timer>,
}

impl Encoder {
    pub fn new(device: &wgpu::Device, adapter: String) -> Self {
        Encoder {
            pipelines: Pipelines::new(device.clone(), adapter),
            bind_groups: Map::default(),
            generation: 0,
            params: device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("params"),
                size: PARAMS_SLOT * MOST_OPS as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            }),
            params_data: Vec::new(),
            in_flight: VecDeque::new(),
            uploaded: 0,
            timer: None,
        }
    }

    /// Compiles what will be asked for.
    pub fn ahead(&self) -> &Arc<Ahead> {
        self.pipelines.ahead()
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

impl Inner {
    /// Copies host bytes to a fresh value. Waits for nothing but the encoder: the memory is one that no recorded op uses, since
    /// those hold theirs or have none yet.
    pub(crate) fn upload(&self, bytes: &[u8]) -> Result<Value> {
        self.check_lost()?;
        self.pool.check("upload", bytes.len() as u64)?;
        let value = Value::logical(&self.pool, bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(value);
        }
        let mut encoder = lock(&self.encoder);
        // Small data is short-lived (ids, masks); large data is weights, which should not be rounded up.
        self.reserve(&mut encoder, &value, bytes.len() > 1 << 20)?;
        let buffer = &value.block(false)?.buffer;
        let whole = bytes.len() & !3;
        let mut at = 0;
        for chunk in bytes[..whole].chunks(UPLOAD_WINDOW as usize) {
            self.queue.write_buffer(buffer, at, chunk);
            at += chunk.len() as u64;
            encoder.uploaded += chunk.len() as u64;
            if encoder.uploaded >= UPLOAD_WINDOW {
                self.submit(&mut encoder, &mut Ops::new(), &[])?;
            }
        }
        if whole < bytes.len() {
            let mut tail = [0; 4];
            tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at, &tail);
            encoder.uploaded += 4;
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(value)
    }

    /// Gives a value memory. Under pressure idle memory goes back to the driver first.
    fn reserve(&self, encoder: &mut Encoder, value: &Value, exact: bool) -> Result<()> {
        match value.block(exact) {
            Err(Error::OutOfMemory { .. }) => {
                self.pool.trim();
                encoder.bind_groups.clear();
                let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
                value.block(true).map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// Submits `ops`, then `copies`. An op that fails is left out, and its error returned after the others went. The ops have let go
    /// of their memory then.
    pub(crate) fn submit(
        &self,
        encoder: &mut Encoder,
        ops: &mut Ops,
        copies: &[Copy<'_>],
    ) -> Result<Option<wgpu::SubmissionIndex>> {
        if ops.is_empty() && copies.is_empty() && encoder.uploaded == 0 {
            return Ok(encoder.in_flight.back().cloned());
        }
        let mut failed = None;
        let mut commands = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut dispatches = 0;
        if !ops.is_empty() {
            let mut params_data = std::mem::take(&mut encoder.params_data);
            params_data.clear();
            let mut timer = encoder.timer.take();
            if let Some(timer) = &mut timer {
                timer.open(&self.device);
            }
            let mut pass = begin(&mut commands, timer.as_ref());
            for at in 0..ops.len() {
                let slot = params_data.len() as u32;
                let encoded = self.encode(encoder, &mut pass, &ops[at..], slot);
                let op = &mut ops[at];
                match encoded {
                    Ok(()) => {
                        params_data.extend_from_slice(&op.params);
                        dispatches += 1;
                        if let Some(timer) = &mut timer {
                            if timer.note(op) {
                                drop(pass);
                                pass = begin(&mut commands, Some(timer));
                            }
                        }
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
                // What nothing else holds can be the memory of the next op's output.
                op.operands.retain(|(value, _)| value.retire());
            }
            drop(pass);
            encoder.pipelines.encoded();
            encoder.timer = timer;
            if !params_data.is_empty() {
                self.queue.write_buffer(&encoder.params, 0, &params_data);
            }
            encoder.params_data = params_data;
        }
        for copy in copies {
            if let Err(error) = self
                .reserve(encoder, copy.source, false)
                .and_then(|()| copy.encode(&mut commands))
            {
                failed = failed.or(Some(error));
            }
        }
        let index = self.queue.submit([commands.finish()]);
        encoder.uploaded = 0;
        self.counters
            .dispatches
            .fetch_add(dispatches, Ordering::Relaxed);
        self.counters.submits.fetch_add(1, Ordering::Relaxed);
        encoder.in_flight.push_back(index.clone());
        if encoder.in_flight.len() > IN_FLIGHT {
            if let Some(oldest) = encoder.in_flight.pop_front() {
                self.wait(oldest)?;
            }
        }
        if !copies.is_empty() {
            encoder.in_flight.clear();
            encoder.pipelines.save_when_quiet();
        }
        match failed.or_else(|| self.take_error()) {
            Some(error) => Err(error),
            None => Ok(Some(index)),
        }
    }

    /// Encodes the first of `ops`; the others are to follow.
    fn encode(
        &self,
        encoder: &mut Encoder,
        pass: &mut wgpu::ComputePass<'_>,
        ops: &[Box<Op>],
        slot: u32,
    ) -> Result<()> {
        let Some((op, behind)) = ops.split_first() else {
            return Ok(());
        };
        let behind = behind.iter().map(|op| &op.spec);
        let pipeline = encoder.pipelines.get(&op.spec, behind)?;
        let mut ids = Bound::new();
        for (value, start) in &op.operands {
            self.reserve(encoder, value, false)?;
            ids.push((value.block(false)?.id, *start));
        }
        let generation = self.pool.generation.load(Ordering::Relaxed);
        if encoder.generation != generation || encoder.bind_groups.len() > BIND_GROUPS {
            encoder.bind_groups.clear();
            encoder.generation = generation;
        }
        let key = (pipeline.signature, ids);
        pass.set_pipeline(&pipeline.pipeline);
        match encoder.bind_groups.get(&key) {
            Some(group) => pass.set_bind_group(0, group, &[slot]),
            None => {
                let group = self.bind_group(encoder, pipeline.signature, op)?;
                pass.set_bind_group(0, &group, &[slot]);
                encoder.bind_groups.insert(key, group);
            }
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
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &encoder.params,
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
            layout: &encoder.pipelines.bind_group_layout(signature),
            entries: &entries,
        }))
    }

    /// The first `count` timestamps of a set, where they can be mapped.
    pub(crate) fn timestamps(&self, queries: &wgpu::QuerySet, count: u32) -> wgpu::Buffer {
        let buffer = |usage| {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("profile"),
                size: u64::from(count) * TICKS,
                usage,
                mapped_at_creation: false,
            })
        };
        let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
        let ticks = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let mut commands = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        commands.resolve_query_set(queries, 0..count, &resolved, 0);
        commands.copy_buffer_to_buffer(&resolved, 0, &ticks, 0, ticks.size());
        self.queue.submit([commands.finish()]);
        ticks
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

fn begin(commands: &mut wgpu::CommandEncoder, timer: Option<&Timer>) -> wgpu::ComputePass<'static> {
    let pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor {
        label: None,
        timestamp_writes: timer.and_then(Timer::writes),
    });
    pass.forget_lifetime()
}
