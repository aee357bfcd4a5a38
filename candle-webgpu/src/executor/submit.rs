//! Submits encoded commands to the queue. `CommandEncoder::finish` validates and translates commands, which takes as long as encoding them;
//! the threaded schedule overlaps this with rewriting and encoding the next ops.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::MutexGuard;

use crate::debug::in_flight::Name;
use crate::debug::profile::TICKS;
use crate::error::Result;
use crate::executor::Executor;
use crate::recorder::batch::{Submitted, MOST_OPS};
use crate::shader::PARAMS_SLOT;
use crate::util::lock;

/// Maximum submits in flight. A further submit waits for the oldest, and the thread that waits wakes late. A caller that runs ahead of
/// its readbacks has two passes in flight, of up to 10 submits each in models of 8 billion parameters.
const MAX_IN_FLIGHT: usize = 16;

/// The contents of one submit.
pub(crate) struct Commands {
    pub encoder: wgpu::CommandEncoder,
    /// The parameters of the dispatches, one slot each; empty with immediates.
    pub params: Vec<u8>,
    /// Kernel and op of each dispatch.
    pub names: Vec<Name>,
    /// Called once they are submitted.
    pub submitted: Option<Submitted>,
}

impl Commands {
    /// Empty commands with room for `dispatches`.
    pub fn new(device: &wgpu::Device, dispatches: usize) -> Self {
        Commands {
            encoder: device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()),
            params: Vec::new(),
            names: Vec::with_capacity(dispatches),
            submitted: None,
        }
    }
}

#[derive(Default)]
pub(crate) struct Submitter {
    pub in_flight: VecDeque<wgpu::SubmissionIndex>,
    /// Bytes written by `Queue::write_buffer` since the last submit.
    pub uploaded: usize,
    /// Staging buffers of large uploads, each with the submit that reads it, oldest first.
    pub staging: VecDeque<(wgpu::Buffer, Option<wgpu::SubmissionIndex>)>,
}

/// An empty submit, after which browsers look for finished work.
#[cfg(target_arch = "wasm32")]
pub(crate) fn submit_nothing(queue: &wgpu::Queue) {
    queue.submit([]);
}

/// The uniform buffer for the parameters of one submit's dispatches.
pub(crate) fn params_buffer(device: &wgpu::Device) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("params"),
        size: PARAMS_SLOT * MOST_OPS as u64,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

impl Executor {
    /// Locks the submitter once every encoded command is submitted.
    pub(crate) fn submitter(&self) -> MutexGuard<'_, Submitter> {
        self.schedule.wait_submitted();
        lock(&self.submitter)
    }

    /// The newest submit in flight.
    pub(crate) fn newest_submit(&self) -> Option<wgpu::SubmissionIndex> {
        lock(&self.submitter).in_flight.back().cloned()
    }

    /// Submits commands, and waits for the oldest submit if too many are in flight.
    pub(crate) fn submit_commands(
        &self,
        submitter: &mut Submitter,
        commands: Commands,
    ) -> Result<()> {
        let buffer = commands.encoder.finish();
        if !commands.params.is_empty() {
            self.queue.write_buffer(&self.params, 0, &commands.params);
        }
        let index = self.queue.submit([buffer]);
        submitter.uploaded = 0;
        submitter.in_flight.push_back(index.clone());
        self.counters.submits.fetch_add(1, Ordering::Relaxed);
        self.counters
            .dispatches
            .fetch_add(commands.names.len() as u64, Ordering::Relaxed);
        lock(&self.in_flight).push(index.clone(), commands.names);
        if let Some(submitted) = commands.submitted {
            submitted(Some(index));
        }
        while submitter.in_flight.len() > MAX_IN_FLIGHT {
            let oldest = submitter.in_flight.pop_front();
            self.wait(oldest)?;
        }
        Ok(())
    }

    /// Copies the first `count` timestamps of a query set to a mappable buffer. Returns that and the submit.
    pub(crate) fn resolve_timestamps(
        &self,
        queries: &wgpu::QuerySet,
        count: u32,
    ) -> (wgpu::Buffer, wgpu::SubmissionIndex) {
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
        let index = self.queue.submit([commands.finish()]);
        (ticks, index)
    }
}
