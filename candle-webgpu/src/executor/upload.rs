//! Uploads host bytes to fresh values.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::executor::submit::{Commands, Submitter};
use crate::executor::Executor;
use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::UPLOAD_CHUNK;
use crate::util::{lock, scoped};

/// Bytes from which data is probably weights.
const LARGE: u64 = 1 << 20;

impl Executor {
    /// A fresh value of `bytes` bytes with memory, to which [`write_upload`](Self::write_upload) may copy. `may_wait` allows waiting for the
    /// device if memory is short.
    pub(crate) fn allocate_upload(&self, bytes: u64, may_wait: bool) -> Result<Value> {
        self.check_lost()?;
        self.gpu.pool.check("upload", bytes)?;
        let value = Value::logical(&self.gpu.pool, bytes);
        // Small data is short-lived (ids, masks). Large data is weights, whose size is not rounded up.
        let exact = bytes > LARGE;
        let mut encoder = lock(&self.encoder);
        if exact {
            self.trim(&mut encoder, Pool::trim_stale);
        }
        match may_wait {
            true => self.allocate(&mut encoder, &value, exact)?,
            false => value.block(exact).map(|_| ())?,
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(value)
    }

    /// Copies host bytes to a value that no recorded op has used, from byte `at` on. Only the last write's length may not be a multiple of
    /// 4. The value's memory is not used by other recorded ops, since ops keep their operands' memory until they are done.
    pub(crate) fn write_upload(&self, value: &Value, mut at: u64, bytes: &[u8]) -> Result<()> {
        let buffer = &value.block(false)?.buffer;
        // Keep others from encoding until this is written.
        let _encoder = lock(&self.encoder);
        let mut submitter = self.submitter();
        let (words, tail) = bytes.split_at(bytes.len() & !3);
        // Browsers map buffers only between two events.
        let staged = value.bytes() > LARGE && !cfg!(target_arch = "wasm32");
        for chunk in words.chunks(UPLOAD_CHUNK) {
            let to = at;
            at += chunk.len() as u64;
            if staged {
                self.copy_staged(&mut submitter, (buffer, to), chunk)?;
                continue;
            }
            self.queue.write_buffer(buffer, to, chunk);
            submitter.uploaded += chunk.len();
            if submitter.uploaded >= UPLOAD_CHUNK {
                self.submit_commands(&mut submitter, Commands::new(&self.device, 0))?;
            }
        }
        if !tail.is_empty() {
            let mut word = [0; 4];
            word[..tail.len()].copy_from_slice(tail);
            self.queue.write_buffer(buffer, at, &word);
            submitter.uploaded += word.len();
        }
        Ok(())
    }

    /// Copies whole words to byte `at` of a buffer through one of two staging buffers, which are kept. `Queue::write_buffer` makes a staging
    /// buffer per call; where host and device share memory, these left gaps between the new buffers (llvmpipe, 8B model: 18 % of its
    /// weights).
    fn copy_staged(
        &self,
        submitter: &mut Submitter,
        (buffer, at): (&wgpu::Buffer, u64),
        bytes: &[u8],
    ) -> Result<()> {
        let staging = self.mapped_staging(submitter)?;
        let size = bytes.len() as u64;
        let mapped = staging.slice(..size).get_mapped_range_mut();
        let not_mapped = |e: wgpu::MapRangeError| self.cause(Error::Validation(e.to_string()));
        mapped.map_err(not_mapped)?.copy_from_slice(bytes);
        staging.unmap();
        let mut commands = Commands::new(&self.device, 0);
        commands
            .encoder
            .copy_buffer_to_buffer(&staging, 0, buffer, at, size);
        self.submit_commands(submitter, commands)?;
        let index = submitter.in_flight.back().cloned();
        submitter.staging.push_back((staging, index));
        Ok(())
    }

    /// A mapped staging buffer of [`UPLOAD_CHUNK`] bytes: the older of two, once its submit is done, or a new one.
    fn mapped_staging(&self, submitter: &mut Submitter) -> Result<wgpu::Buffer> {
        if submitter.staging.len() == 2 {
            if let Some((staging, index)) = submitter.staging.pop_front() {
                // Waiting also completes the mapping; if it failed, the caller sees that.
                let all = staging.slice(..);
                all.map_async(wgpu::MapMode::Write, |_| ());
                self.wait(index)?;
                return Ok(staging);
            }
        }
        let size = UPLOAD_CHUNK as u64;
        let make = || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("upload"),
                size,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        };
        match scoped(&self.device, wgpu::ErrorFilter::OutOfMemory, make) {
            (_, Some(_)) => Err(self.gpu.pool.out_of_memory(size, 0)),
            (staging, None) => Ok(staging),
        }
    }
}
