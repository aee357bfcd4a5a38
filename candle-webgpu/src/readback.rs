//! Reading back: the copy is part of the submit that flushes the ops before it; waiting spins briefly,
//! then blocks.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::buffer::{lock, Value};
use crate::device::Inner;
use crate::error::{Error, Result};

/// Bytes of the fault record: count, op, index (low, high), size.
pub(crate) const FAULT_BYTES: u64 = 32;
/// How long to poll before blocking: a round trip is some 50 us, a blocked thread wakes later.
const SPIN: Duration = Duration::from_micros(500);
/// Bytes of a staging buffer; more is read in several copies.
const CHUNK: u64 = (64 << 20) - 4096;

/// A copy from a value to a staging buffer, at the end of a submit.
pub(crate) struct Copy<'a> {
    pub source: &'a Value,
    pub from: u64,
    pub bytes: u64,
    pub staging: &'a wgpu::Buffer,
    pub to: u64,
}

impl Copy<'_> {
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
        let source = &self.source.block(false)?.buffer;
        encoder.copy_buffer_to_buffer(source, self.from, self.staging, self.to, self.bytes);
        Ok(())
    }
}

impl Inner {
    /// The bytes `from..from + bytes` of a value, after everything recorded so far.
    pub(crate) fn read(&self, value: &Value, from: u64, bytes: u64) -> Result<Vec<u8>> {
        self.check_lost()?;
        if from + bytes > value.bytes() {
            return Err(Error::Invalid {
                op: "readback",
                message: format!("bytes {from}..{} of {}", from + bytes, value.bytes()),
            });
        }
        let mut out = self.read_chunk(value, from, bytes.min(CHUNK))?;
        out.reserve_exact(bytes as usize - out.len());
        while (out.len() as u64) < bytes {
            let at = out.len() as u64;
            out.extend(self.read_chunk(value, from + at, (bytes - at).min(CHUNK))?);
        }
        self.counters.readbacks.fetch_add(1, Ordering::Relaxed);
        Ok(out)
    }

    /// One copy to a staging buffer.
    fn read_chunk(&self, value: &Value, from: u64, bytes: u64) -> Result<Vec<u8>> {
        // Copies are made of whole words.
        let start = from & !3;
        let len = (from + bytes).next_multiple_of(4) - start;
        let staging = self.staging(len + FAULT_BYTES);
        let mut recorder = lock(&self.recorder);
        let faults = std::mem::take(&mut recorder.faults);
        let mut copies = Vec::with_capacity(2);
        if len > 0 {
            copies.push(Copy {
                source: value,
                from: start,
                bytes: len,
                staging: &staging,
                to: 0,
            });
        }
        if faults {
            copies.push(Copy {
                source: &self.fault,
                from: 0,
                bytes: FAULT_BYTES,
                staging: &staging,
                to: len,
            });
        }
        let index = self.flush(&mut recorder, &copies)?;
        drop(recorder);
        let mut out = self.map(&staging, len + FAULT_BYTES, index)?;
        lock(&self.staging).push(staging);
        if faults {
            self.raise(&out[len as usize..])?;
        }
        let skip = (from - start) as usize;
        out.truncate(skip + bytes as usize);
        out.drain(..skip);
        Ok(out)
    }

    /// Waits until everything recorded so far is done, and reports faults.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let mut recorder = lock(&self.recorder);
        if recorder.faults {
            drop(recorder);
            return self.read(&self.fault, 0, 0).map(|_| ());
        }
        let index = self.flush(&mut recorder, &[])?;
        drop(recorder);
        if let Some(index) = index {
            self.wait(index)?;
        }
        self.check_lost()?;
        self.take_error().map_or(Ok(()), Err)
    }

    fn staging(&self, bytes: u64) -> wgpu::Buffer {
        let size = bytes.next_power_of_two().max(4096);
        let mut free = lock(&self.staging);
        if let Some(i) = free.iter().position(|b| b.size() == size) {
            return free.swap_remove(i);
        }
        // A few sizes recur (a token, a row of logits); do not hoard the others.
        free.truncate(4);
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("readback"),
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    fn map(
        &self,
        staging: &wgpu::Buffer,
        bytes: u64,
        index: Option<wgpu::SubmissionIndex>,
    ) -> Result<Vec<u8>> {
        const WAITING: u8 = 0;
        const MAPPED: u8 = 1;
        const FAILED: u8 = 2;
        let failed = |message: String| Error::Readback {
            adapter: self.report.name.clone(),
            message,
        };
        let state = Arc::new(AtomicU8::new(WAITING));
        let slice = staging.slice(..bytes);
        let done = state.clone();
        slice.map_async(wgpu::MapMode::Read, move |result| {
            done.store(
                if result.is_ok() { MAPPED } else { FAILED },
                Ordering::Release,
            );
        });
        let start = Instant::now();
        while state.load(Ordering::Acquire) == WAITING && start.elapsed() < SPIN {
            let _ = self.device.poll(wgpu::PollType::Poll);
            std::thread::yield_now();
        }
        if state.load(Ordering::Acquire) == WAITING {
            match index {
                Some(index) => self.wait(index)?,
                None => {
                    let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
                }
            }
        }
        // The submission may be done while its callback has not run yet.
        while state.load(Ordering::Acquire) == WAITING {
            self.check_lost()?;
            self.device
                .poll(wgpu::PollType::wait_indefinitely())
                .map_err(|e| failed(e.to_string()))?;
        }
        if state.load(Ordering::Acquire) == FAILED {
            self.check_lost()?;
            return Err(failed("the buffer could not be mapped".into()));
        }
        let data = slice
            .get_mapped_range()
            .map_err(|e| failed(e.to_string()))?
            .to_vec();
        staging.unmap();
        Ok(data)
    }

    /// Turns a fault record into an error, and clears it.
    fn raise(&self, record: &[u8]) -> Result<()> {
        let word = |i: usize| {
            u32::from_le_bytes([
                record[i * 4],
                record[i * 4 + 1],
                record[i * 4 + 2],
                record[i * 4 + 3],
            ])
        };
        if word(0) == 0 {
            return Ok(());
        }
        let buffer = &self.fault.block(false)?.buffer;
        self.queue
            .write_buffer(buffer, 0, &[0; FAULT_BYTES as usize]);
        let op = lock(&self.fault_ops).get(word(1) as usize).copied();
        Err(Error::IndexOutOfRange {
            op: op.unwrap_or("indexing"),
            index: (u64::from(word(3)) << 32 | u64::from(word(2))) as i64,
            size: u64::from(word(4)),
        })
    }
}
