//! Uploads host bytes to a fresh value.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::executor::submit::Commands;
use crate::executor::Executor;
use crate::memory::buffer::Value;
use crate::util::lock;

/// Maximum bytes per write, and of uploads between two submits. A submit frees wgpu's staging copies.
const UPLOAD_CHUNK: u64 = 64 << 20;

impl Executor {
    /// Copies host bytes to a fresh value. `may_wait` allows waiting for the device if memory is short. The fresh memory is not used by any
    /// recorded op, since ops keep their operands' memory until they are done.
    pub(crate) fn upload_bytes(&self, bytes: &[u8], may_wait: bool) -> Result<Value> {
        self.check_lost()?;
        self.gpu.pool.check("upload", bytes.len() as u64)?;
        let value = Value::logical(&self.gpu.pool, bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(value);
        }
        // Small data is short-lived (ids, masks). Large data is weights, whose size is not rounded up.
        let exact = bytes.len() > 1 << 20;
        let mut encoder = lock(&self.encoder);
        match may_wait {
            true => self.allocate(&mut encoder, &value, exact)?,
            false => value.block(exact).map(|_| ())?,
        }
        let buffer = &value.block(false)?.buffer;
        let mut submitter = self.submitter();
        let whole = bytes.len() & !3;
        let mut at = 0;
        for chunk in bytes[..whole].chunks(UPLOAD_CHUNK as usize) {
            self.queue.write_buffer(buffer, at, chunk);
            at += chunk.len() as u64;
            submitter.uploaded += chunk.len() as u64;
            if submitter.uploaded >= UPLOAD_CHUNK {
                self.submit_commands(&mut submitter, Commands::new(&self.device, 0))?;
            }
        }
        if whole < bytes.len() {
            let mut tail = [0; 4];
            tail[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at, &tail);
            submitter.uploaded += 4;
        }
        self.counters.uploads.fetch_add(1, Ordering::Relaxed);
        Ok(value)
    }
}
