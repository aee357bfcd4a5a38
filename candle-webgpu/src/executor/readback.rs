//! Readback: copies device bytes to the host. The copy to a staging buffer is part of the submit that flushes the preceding ops. Blocking
//! calls wait for it; a [`Reading`] is awaited.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::executor::wait::{block, until};
use crate::executor::Executor;
use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::batch::{Copy, Flush, Submitted};
use crate::recorder::Recorder;
use crate::util::block::{may_block, Call};
use crate::util::lock;
use crate::util::ready::{Ready, Signal};
use crate::util::scoped;

/// Bytes of the fault record. Its words: count, op, index (low, high), size, result of the NaN check, 2 unused.
pub(crate) const FAULT_BYTES: u64 = 32;
/// Bytes of one copy; larger reads are split.
const CHUNK: u64 = (64 << 20) - 4096;

/// Encodes a copy to a staging buffer.
pub(crate) fn encode_copy(copy: &Copy, encoder: &mut wgpu::CommandEncoder) -> Result<()> {
    let source = &copy.source.block(false)?.buffer;
    encoder.copy_buffer_to_buffer(source, copy.from, &copy.staging, copy.to, copy.bytes);
    Ok(())
}

const READ: Call = (
    "a readback",
    "the async method (to_scalar_async, to_vec0_async .. to_vec3_async, to_device_async, QTensor::data_async)",
);
const SYNCHRONIZE: Call = ("Device::synchronize", "Device::synchronize_async");

/// A copy to a staging buffer in progress.
struct Part {
    staging: wgpu::Buffer,
    ready: Ready,
    /// Held until the bytes are taken.
    _reading: Arc<()>,
    /// The value that is read, if any bytes of it are.
    source: Option<Value>,
    /// Bytes copied, a multiple of 4; the fault record follows them.
    len: u64,
    /// The requested range is `skip..skip + bytes`.
    skip: usize,
    bytes: usize,
    /// The fault record was copied too.
    faults: bool,
}

/// A readback in progress. It reads a copy of the bytes, so later writes to the value do not affect it.
pub struct Reading {
    executor: Arc<Executor>,
    parts: Vec<Part>,
}

impl Reading {
    pub(crate) fn start(
        executor: Arc<Executor>,
        recorder: &Recorder,
        value: &Value,
        from: u64,
        bytes: u64,
    ) -> Result<Self> {
        executor.check_read(value, from, bytes)?;
        let mut parts = Vec::new();
        let mut at = 0;
        while at < bytes || parts.is_empty() {
            let chunk = (bytes - at).min(CHUNK);
            parts.push(executor.request(recorder, value, from + at, chunk)?);
            at += chunk;
        }
        executor.counters.readbacks.fetch_add(1, Ordering::Relaxed);
        Ok(Self { executor, parts })
    }

    /// Awaits the bytes. An error if the device failed or an op reported a fault.
    pub async fn bytes(self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for part in self.parts {
            let mapped = until(&self.executor, part.ready.clone()).await;
            let bytes = self.executor.collect(part, mapped)?;
            match out.is_empty() {
                true => out = bytes,
                false => out.extend(bytes),
            }
        }
        Ok(out)
    }
}

impl Executor {
    fn check_read(&self, value: &Value, from: u64, bytes: u64) -> Result<()> {
        self.check_lost()?;
        if from + bytes > value.bytes() {
            return Err(Error::Invalid {
                op: "readback",
                message: format!(
                    "bytes {from}..{} exceed the value's {} bytes",
                    from + bytes,
                    value.bytes()
                ),
            });
        }
        Ok(())
    }

    /// The bytes `from..from + bytes` of a value, after everything recorded so far.
    pub(crate) fn read(
        &self,
        recorder: &Recorder,
        value: &Value,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        may_block(READ)?;
        self.check_read(value, from, bytes)?;
        let mut out = self.read_chunk(recorder, value, from, bytes.min(CHUNK))?;
        out.reserve_exact(bytes as usize - out.len());
        while (out.len() as u64) < bytes {
            let at = out.len() as u64;
            out.extend(self.read_chunk(recorder, value, from + at, (bytes - at).min(CHUNK))?);
        }
        self.counters.readbacks.fetch_add(1, Ordering::Relaxed);
        Ok(out)
    }

    fn read_chunk(
        &self,
        recorder: &Recorder,
        value: &Value,
        from: u64,
        bytes: u64,
    ) -> Result<Vec<u8>> {
        let part = self.request(recorder, value, from, bytes)?;
        let mapped = recorder.wait_submitted().and_then(|()| {
            lock(&self.submitter).in_flight.clear();
            block(self, &part.ready, READ)
        });
        if mapped.is_err() {
            // The next readback reports the faults.
            lock(&recorder.pending).faults |= part.faults;
        }
        self.collect(part, mapped?)
    }

    /// Passes on the recorded ops and a copy to a staging buffer, which is mapped once they are submitted.
    fn request(&self, recorder: &Recorder, value: &Value, from: u64, bytes: u64) -> Result<Part> {
        // Buffer copies are limited to whole words.
        let start = from & !3;
        let len = (from + bytes).next_multiple_of(4) - start;
        let staging = self.staging(len + FAULT_BYTES)?;
        let mut pending = lock(&recorder.pending);
        let faults = std::mem::take(&mut pending.faults);
        let mut copies = Vec::with_capacity(2);
        let copy = |source: &Value, from, bytes, to| Copy {
            source: source.bound(),
            from,
            bytes,
            staging: staging.clone(),
            to,
        };
        if len > 0 {
            copies.push(copy(value, start, len, 0));
        }
        if faults {
            copies.push(copy(&self.gpu.fault, 0, FAULT_BYTES, len));
        }
        let mapped = staging.clone();
        let (ready, submitted) = self.after_submit(move |done| {
            let all = mapped.slice(..len + FAULT_BYTES);
            all.map_async(wgpu::MapMode::Read, move |result| {
                done.finish(result.is_ok())
            });
        });
        let end = Flush {
            copies,
            submitted: Some(submitted),
        };
        let (batch, reading) = pending.read(&self.gpu.pool, end);
        recorder.pass_on(&mut pending, batch);
        Ok(Part {
            staging,
            ready,
            _reading: reading,
            source: (len > 0).then(|| value.bound()),
            len,
            skip: (from - start) as usize,
            bytes: bytes as usize,
            faults,
        })
    }

    /// Copies the bytes out of a mapped staging buffer and recycles it. Reports faults and stored errors.
    fn collect(&self, part: Part, mapped: bool) -> Result<Vec<u8>> {
        if !mapped {
            let error = self.unread("the buffer could not be mapped");
            // Continue if the mapping was merely late.
            if part.ready.result() != Some(true) {
                return Err(error);
            }
        }
        // Check the value itself: another thread may already have taken the error of its failed op. If not, nobody else gets it.
        if let Some(Err(error)) = part.source.map(|source| source.block(false).map(|_| ())) {
            return Err(self.take_stored_error().unwrap_or(error));
        }
        let data = part
            .staging
            .slice(..part.len + FAULT_BYTES)
            .get_mapped_range()
            .map_err(|e| self.unread(&e.to_string()))?;
        let out = data[part.skip..part.skip + part.bytes].to_vec();
        let record = data[part.len as usize..].to_vec();
        drop(data);
        part.staging.unmap();
        lock(&self.staging).push(part.staging);
        if part.faults {
            self.report_faults(&record)?;
        }
        // Browsers report validation errors only after the call that caused them.
        self.take_stored_error().map_or(Ok(out), Err)
    }

    /// Submits everything recorded so far; `false` if an op may have reported a fault, which a readback returns.
    fn submit_all(&self, recorder: &Recorder) -> Result<bool> {
        let mut pending = lock(&recorder.pending);
        if pending.faults {
            return Ok(false);
        }
        recorder.flush(&mut pending)?;
        Ok(true)
    }

    /// Waits for everything recorded so far. Returns faults and stored errors.
    pub(crate) fn synchronize(&self, recorder: &Recorder) -> Result<()> {
        may_block(SYNCHRONIZE)?;
        if !self.submit_all(recorder)? {
            return self.read(recorder, &self.gpu.fault, 0, 0).map(|_| ());
        }
        match cfg!(target_arch = "wasm32") {
            true => block(self, &self.work_done(recorder), SYNCHRONIZE).map(|_| ())?,
            false => self.wait(self.newest_submit())?,
        }
        self.trim(&mut lock(&self.encoder), Pool::trim_stale);
        self.check_lost()?;
        self.take_stored_error().map_or(Ok(()), Err)
    }

    /// [`synchronize`](Self::synchronize) without blocking.
    pub(crate) async fn synchronize_async(self: &Arc<Self>, recorder: &Recorder) -> Result<()> {
        if !self.submit_all(recorder)? {
            let reading = Reading::start(self.clone(), recorder, &self.gpu.fault, 0, 0)?;
            return reading.bytes().await.map(|_| ());
        }
        let ready = self.work_done(recorder);
        if !until(self, ready.clone()).await {
            let error = self.unread("waiting for the device failed");
            if ready.result() != Some(true) {
                return Err(error);
            }
        }
        self.trim(&mut lock(&self.encoder), Pool::trim_stale);
        self.check_lost()?;
        self.take_stored_error().map_or(Ok(()), Err)
    }

    /// Returns all idle memory to the driver, staging buffers included.
    pub(crate) fn empty_cache(&self) {
        self.trim(&mut lock(&self.encoder), Pool::trim);
        lock(&self.staging).clear();
        self.submitter().staging.clear();
        // wgpu frees dropped buffers when it is polled.
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    /// Ready when everything passed on so far is done.
    fn work_done(&self, recorder: &Recorder) -> Ready {
        let queue = self.queue.clone();
        let (ready, submitted) = self.after_submit(move |done| {
            queue.on_submitted_work_done(move || done.finish(true));
        });
        let mut pending = lock(&recorder.pending);
        let end = Flush {
            copies: Vec::new(),
            submitted: Some(submitted),
        };
        let batch = pending.batch(&self.gpu.pool, Some(end));
        recorder.pass_on(&mut pending, batch);
        ready
    }

    /// For a flush: calls `request` once its work is submitted. It requests an event of the device, which finishes the signal.
    fn after_submit(&self, request: impl FnOnce(Signal) + Send + 'static) -> (Ready, Submitted) {
        let (ready, done) = Ready::new();
        #[cfg(target_arch = "wasm32")]
        let (queue, polled) = (self.queue.clone(), ready.clone());
        let submitted = Box::new(move |index| {
            done.set_index(index);
            #[cfg(target_arch = "wasm32")]
            crate::executor::wait::poll_by_submits(&queue, &polled);
            request(done);
        });
        (ready, submitted)
    }

    fn staging(&self, bytes: u64) -> Result<wgpu::Buffer> {
        let size = bytes.next_power_of_two().max(4096);
        let mut free = lock(&self.staging);
        if let Some(i) = free.iter().position(|b| b.size() == size) {
            return Ok(free.swap_remove(i));
        }
        // Keep only a few buffers: few sizes recur (a token, a row of logits).
        free.truncate(4);
        let make = || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("readback"),
                size,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let (buffer, error) = scoped(&self.device, wgpu::ErrorFilter::OutOfMemory, make);
        match error {
            Some(_) => Err(self.gpu.pool.out_of_memory(size, 0)),
            None => Ok(buffer),
        }
    }

    /// Returns the error that a fault record describes, if any, and clears the record.
    fn report_faults(&self, record: &[u8]) -> Result<()> {
        let word = |i: usize| bytemuck::pod_read_unaligned::<u32>(&record[i * 4..][..4]);
        let check = self.nan_check.as_ref();
        let nan = check.and_then(|check| check.error(word(5)));
        if word(0) == 0 && nan.is_none() {
            return Ok(());
        }
        let buffer = &self.gpu.fault.block(false)?.buffer;
        self.queue
            .write_buffer(buffer, 0, &[0; FAULT_BYTES as usize]);
        if word(0) == 0 {
            return nan.map_or(Ok(()), Err);
        }
        let op = lock(&self.gpu.fault_ops).get(word(1) as usize).copied();
        Err(Error::IndexOutOfRange {
            op: op.unwrap_or("indexing"),
            index: (u64::from(word(3)) << 32 | u64::from(word(2))) as i64,
            size: u64::from(word(4)),
        })
    }
}
