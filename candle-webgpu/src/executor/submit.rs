//! From encoded commands to the queue. wgpu checks and translates commands when they are finished, which takes as long as all that
//! came before; natively a thread does it, while the next ops are rewritten and encoded.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::MutexGuard;

use crate::debug::in_flight::Name;
use crate::debug::profile::TICKS;
use crate::error::Result;
use crate::executor::Executor;
use crate::recorder::batch::MOST_OPS;
use crate::shader::PARAMS_SLOT;
use crate::util::lock;

/// Submits that may be in flight before the next one waits for the oldest.
const IN_FLIGHT: usize = 6;

/// What one submit does.
pub(crate) struct Commands {
    pub commands: wgpu::CommandEncoder,
    /// The parameters of its dispatches, a slot each, where they are not immediates.
    pub params: Vec<u8>,
    pub names: Vec<Name>,
}

impl Commands {
    /// With room for some dispatches.
    pub fn new(device: &wgpu::Device, dispatches: usize) -> Self {
        Commands {
            commands: device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()),
            params: Vec::new(),
            names: Vec::with_capacity(dispatches),
        }
    }
}

/// Submits, one after the other.
#[derive(Default)]
pub(crate) struct Sender {
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    /// Bytes that were written by the queue since the last submit.
    pub uploaded: u64,
}

/// Submits nothing, so that the browser looks for work that is done.
#[cfg(target_arch = "wasm32")]
pub(crate) fn nudge(queue: &wgpu::Queue) {
    queue.submit([]);
}

/// The buffer that holds the parameters of a submit's dispatches.
pub(crate) fn params(device: &wgpu::Device) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("params"),
        size: PARAMS_SLOT * MOST_OPS as u64,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

impl Executor {
    /// The sender, when all that was encoded has been submitted.
    pub(crate) fn sender(&self) -> MutexGuard<'_, Sender> {
        if let Some(threads) = self.threads.get() {
            threads.sender.settle();
        }
        lock(&self.sender)
    }

    /// The newest submit that was not waited for. `forget` all of them if this one will be.
    pub(crate) fn newest(&self, forget: bool) -> Option<wgpu::SubmissionIndex> {
        let mut sender = lock(&self.sender);
        let newest = sender.in_flight.back().cloned();
        if forget {
            sender.in_flight.clear();
        }
        newest
    }

    /// Submits commands behind all that were submitted before.
    pub(crate) fn submit_commands(&self, sender: &mut Sender, commands: Commands) -> Result<()> {
        let Commands {
            commands,
            params,
            names,
        } = commands;
        let commands = commands.finish();
        if !params.is_empty() {
            self.queue.write_buffer(&self.params, 0, &params);
        }
        let index = self.queue.submit([commands]);
        sender.uploaded = 0;
        sender.in_flight.push_back(index.clone());
        self.counters.submits.fetch_add(1, Ordering::Relaxed);
        self.counters
            .dispatches
            .fetch_add(names.len() as u64, Ordering::Relaxed);
        lock(&self.in_flight).push(index, names);
        while sender.in_flight.len() > IN_FLIGHT {
            let oldest = sender.in_flight.pop_front();
            self.wait(oldest)?;
        }
        Ok(())
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
}
