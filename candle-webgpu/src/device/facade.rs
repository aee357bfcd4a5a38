//! The public device: a facade of a recorder and an executor. One per adapter and process, shared by cloning.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::device::adapter::AdapterReport;
use crate::device::env::REWRITE_VAR;
use crate::device::features::FeatureState;
use crate::dtype::DType;
use crate::error::Result;
use crate::executor::readback::Reading;
use crate::executor::Executor;
use crate::fusion::{coalesce_copies, Fired, RuleSet};
use crate::kernel::matmul::quantized::Blocks;
use crate::memory::buffer::Value;
use crate::recorder::Recorder;
use crate::util::lock;

/// Counters of a device since it was created. Subtract two snapshots to measure a piece of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub dispatches: u64,
    pub submits: u64,
    pub readbacks: u64,
    pub uploads: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Custom ops run on the CPU (opt-in by `CANDLE_WEBGPU_CPU_FALLBACK`).
    pub cpu_fallbacks: u64,
    /// Ops whose results were compared with the CPU (`CANDLE_WEBGPU_VERIFY`).
    pub verified: u64,
    /// Bytes of device memory allocated now, idle memory included.
    pub allocated_bytes: u64,
    /// Peak bytes allocated.
    pub peak_bytes: u64,
}

/// The device's state. The list of shared devices keeps it alive after the last handle is dropped.
pub(super) struct Core {
    pub(super) id: usize,
    pub(super) report: AdapterReport,
    pub(super) recorder: Recorder,
    pub(super) executor: Arc<Executor>,
    /// Callers compare the results of ops with the CPU's.
    pub(super) verify: bool,
    pub(super) cpu_fallback: bool,
    /// Set once the self-tests have run.
    pub(super) features: OnceLock<Vec<FeatureState>>,
    pub(super) cpu_fallbacks: AtomicU64,
    pub(super) verified: AtomicU64,
}

/// Shared by the clones of a device.
pub(super) struct Handle(pub(super) Arc<Core>);

impl Drop for Handle {
    /// Waits until no thread is inside the driver, so that the program can end, and saves compiled pipelines.
    fn drop(&mut self) {
        let executor = &self.0.executor;
        executor.wait_idle();
        lock(&executor.encoder).pipelines.finish_saving();
    }
}

/// A WebGPU device. Ops return once they are recorded; only readbacks wait.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Handle>);

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WebGpu({}: {})", self.core().id, self.adapter().name)
    }
}

/// Ops are methods of [`Recorder`].
impl Deref for Device {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.core().recorder
    }
}

impl Device {
    pub(super) fn core(&self) -> &Core {
        &self.0 .0
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.core().executor
    }

    /// Unique among the devices of this process.
    pub fn id(&self) -> usize {
        self.core().id
    }

    pub fn adapter(&self) -> &AdapterReport {
        &self.core().report
    }

    /// Every optional feature, and why the device does without it if it does.
    pub fn optional_features(&self) -> &[FeatureState] {
        self.core().features.get().map_or(&[], Vec::as_slice)
    }

    /// Whether matmuls use cooperative matrices of f16: supported, self-test passed, not disabled.
    pub fn cooperative(&self) -> bool {
        self.coop_tiles().is_some()
    }

    /// Whether attention uses cooperative matrices.
    pub fn cooperative_attention(&self) -> bool {
        crate::kernel::attention::flash_coop::is_supported(self)
    }

    /// Whether `CANDLE_WEBGPU_VERIFY` asks callers to compare each result with the CPU.
    #[inline]
    pub fn verifies(&self) -> bool {
        cfg!(not(target_arch = "wasm32")) && self.core().verify
    }

    /// Whether custom ops without an implementation for the device may run on the CPU ([`crate::CPU_FALLBACK_VAR`]).
    pub fn cpu_fallback(&self) -> bool {
        self.core().cpu_fallback
    }

    /// The counters. Recorded ops count only once they are submitted.
    pub fn stats(&self) -> Stats {
        let executor = self.executor();
        executor.wait_idle();
        let c = &executor.counters;
        let (allocated_bytes, peak_bytes) = self.pool.usage();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            dispatches: count(&c.dispatches),
            submits: count(&c.submits),
            readbacks: count(&c.readbacks),
            uploads: count(&c.uploads),
            pipelines: lock(&executor.encoder).pipelines.len() as u64,
            cpu_fallbacks: count(&self.core().cpu_fallbacks),
            verified: count(&self.core().verified),
            allocated_bytes,
            peak_bytes,
        }
    }

    /// The fusion rules, and how often each fired since the device was created.
    pub fn rewrites(&self) -> Vec<Fired> {
        self.executor().rules.report()
    }

    /// Sets the fusion rules for all clones of the device, in the syntax of [`crate::REWRITE_VAR`]; an empty list is the default. Ops
    /// recorded earlier use the old rules.
    pub fn rewrite_by(&self, rules: &str) -> Result<()> {
        let rules = RuleSet::parse(REWRITE_VAR, rules, self.software)?;
        let mut pending = lock(&self.pending);
        let sent = self.flush(&mut pending);
        self.use_rules(rules);
        sent
    }

    /// Whether later matmuls and attention of f32 may use cooperative matrices of f16, where the adapter has them. They round operands to
    /// 11 bits, like TF32, and accumulate in f32. Off by default, or as [`REDUCED_F32_VAR`](crate::REDUCED_F32_VAR) says.
    ///
    /// Each line of an operand along k (in attention, each row) is first divided by a power of two, which brings its largest magnitude to
    /// 2^14. Elements less than 2^-28 of that have fewer bits, and those below 2^-38 become zero. Matmuls of fewer than 17 rows or 64 terms stay
    /// as they are.
    ///
    /// Hands over what was recorded, which is not affected. Returns its error, if there is one.
    pub fn set_gemm_reduced_precision_f32(&self, reduced: bool) -> Result<()> {
        let sent = self.submit_recorded();
        // The choice of an attention kernel is made when ops are rewritten.
        self.executor().wait_idle();
        self.reduced_f32.store(reduced, Ordering::Relaxed);
        sent
    }

    pub(super) fn use_rules(&self, rules: RuleSet) {
        self.executor().rules.set(rules);
        let joins = self.executor().rules.is_on(&coalesce_copies::RULE);
        self.joins_copies.store(joins, Ordering::Relaxed);
    }

    /// Counts an op whose result was compared with the CPU's.
    pub fn note_verified(&self) {
        self.core().verified.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a custom op that ran on the CPU.
    pub fn note_cpu_fallback(&self) {
        self.core().cpu_fallbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// Copies host bytes to a fresh value. Waits for the device only if memory is short.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value> {
        // A scalar (for example a token id) becomes a parameter of `fill`, since a buffer write would be a separate command.
        let dtype = match bytes.len() {
            1 => DType::U8,
            2 => DType::U16,
            4 => DType::U32,
            8 => DType::I64,
            _ => return self.upload_buffer(bytes),
        };
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        let uploads = &self.executor().counters.uploads;
        uploads.fetch_add(1, Ordering::Relaxed);
        self.fill(1, dtype, u64::from_le_bytes(bits))
    }

    /// Reads the bytes `from..from + bytes` of a value. Waits for everything recorded before. An error if the range exceeds the value, the
    /// device is lost, or an earlier op reported a fault.
    pub fn read(&self, value: &Value, from: u64, bytes: u64) -> Result<Vec<u8>> {
        self.executor().read(self, value, from, bytes)
    }

    /// Starts to read the bytes `from..from + bytes` of a value, as they are after everything recorded so far.
    pub fn read_async(&self, value: &Value, from: u64, bytes: u64) -> Result<Reading> {
        Reading::start(self.executor().clone(), self, value, from, bytes)
    }

    /// Reads `blocks` quantized blocks in file layout. Waits for everything recorded before.
    pub fn read_blocks(&self, x: Blocks<'_>, blocks: usize) -> Result<Vec<u8>> {
        let format = x.quant.info();
        let bytes = self.read(x.value, 0, format.device_bytes(blocks) as u64)?;
        Ok(format.unpack(bytes, blocks))
    }

    /// [`read_blocks`](Self::read_blocks) without blocking: this call copies, the future returns the bytes.
    pub fn read_blocks_async(
        &self,
        x: Blocks<'_>,
        blocks: usize,
    ) -> Result<impl std::future::Future<Output = Result<Vec<u8>>> + use<>> {
        let format = x.quant.info();
        let reading = self.read_async(x.value, 0, format.device_bytes(blocks) as u64)?;
        Ok(async move { Ok(format.unpack(reading.bytes().await?, blocks)) })
    }

    /// The most bytes that all tensors together can have, if known: [`crate::MEMORY_VAR`], or the memory of a discrete adapter.
    pub fn memory_limit(&self) -> Option<u64> {
        let own = self
            .adapter()
            .memory
            .filter(|_| self.adapter().kind == "discrete");
        self.pool.budget().or(own)
    }

    /// Returns the memory of dropped tensors to the driver, instead of keeping it for later tensors. Does not wait: memory that unfinished
    /// work uses is returned after it.
    ///
    /// The device itself returns memory that was not used lately if it is more than a quarter of all, at readbacks,
    /// [`synchronize`](Self::synchronize) and uploads of more than 1 MiB.
    pub fn empty_cache(&self) -> Result<()> {
        // Recorded ops hold memory until they are submitted.
        self.submit_recorded()?;
        self.executor().empty_cache();
        Ok(())
    }

    /// Waits for everything recorded before. Reports faults and errors of earlier ops.
    pub fn synchronize(&self) -> Result<()> {
        self.executor().synchronize(self)
    }

    /// [`synchronize`](Self::synchronize) without blocking.
    pub async fn synchronize_async(&self) -> Result<()> {
        self.executor().synchronize_async(self).await
    }
}
