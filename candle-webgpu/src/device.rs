//! A logical device: one per adapter and process, shared by cloning.

mod open;

pub use open::{DISABLE_VAR, ENABLE_VAR};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::adapter::AdapterReport;
use crate::ahead::Ahead;
use crate::apart::Apart;
use crate::buffer::{lock, Pool, Value};
use crate::check::Check;
use crate::elem::Elem;
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::flight::Flight;
use crate::kernel::copy::Run;
use crate::kernel::{flash_coop, gemm_coop};
use crate::link::{Kernel, Spec};
use crate::queue::{Recorder, Threads};
use crate::readback::Reading;
use crate::recorded::{Grid, Ops};
use crate::rewrite::{Fired, Rewrites, Set};
use crate::submit::Sender;
use crate::window::Window;

#[derive(Default)]
pub(crate) struct Counters {
    pub dispatches: AtomicU64,
    pub submits: AtomicU64,
    pub readbacks: AtomicU64,
    pub uploads: AtomicU64,
    pub cpu_fallbacks: AtomicU64,
    pub verified: AtomicU64,
}

/// What the device did since it was made. Subtract two to see what a piece of work took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    pub dispatches: u64,
    pub submits: u64,
    pub readbacks: u64,
    pub uploads: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Custom ops run by a round trip through the CPU (an opt-in).
    pub cpu_fallbacks: u64,
    /// Ops whose results were compared with the CPU's (`CANDLE_WEBGPU_VERIFY`).
    pub verified: u64,
    /// Bytes of device memory held now, idle memory included.
    pub allocated_bytes: u64,
    /// The most bytes ever held.
    pub peak_bytes: u64,
}

struct Rng {
    seed: u64,
    counter: u64,
}

pub(crate) struct Inner {
    pub id: usize,
    pub report: AdapterReport,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: wgpu::Limits,
    pub features: wgpu::Features,
    pub dot4: bool,
    /// Parameters come with the dispatch, not in a buffer.
    pub immediates: bool,
    pub in_turn: bool,
    /// How long a wait goes on while no submit is finished.
    pub timeout: Option<Duration>,
    /// Ops are looked at.
    pub check: Option<Check>,
    /// What it gives is compared with what the CPU gives.
    pub verify: bool,
    /// Custom ops without an implementation for the device may run on the CPU.
    pub cpu_fallback: bool,
    /// Names of kernels to do without.
    pub denied: Vec<&'static str>,
    pub rewrites: Rewrites,
    /// Ops are named on stderr as they are encoded.
    pub log: bool,
    /// Cooperative matrices that have been tried and give the right numbers.
    pub cooperative: OnceLock<&'static [gemm_coop::Tile]>,
    pub pool: Arc<Pool>,
    /// Bytes that one binding shows, a multiple of 256.
    pub binding: u64,
    pub recorder: Apart<Mutex<Recorder>>,
    pub encoder: Apart<Mutex<Encoder>>,
    pub sender: Apart<Mutex<Sender>>,
    /// The parameters of the dispatches of a submit.
    pub params: wgpu::Buffer,
    pub ahead: Arc<Ahead>,
    /// The newest ops of those that were handed over to be rewritten.
    pub held: Apart<Mutex<Ops>>,
    /// They go on with what is recorded, where there are threads.
    pub threads: OnceLock<Threads>,
    pub flight: Apart<Mutex<Flight>>,
    pub staging: Mutex<Vec<wgpu::Buffer>>,
    pub counters: Apart<Counters>,
    pub fault: Value,
    pub fault_ops: Mutex<Vec<&'static str>>,
    rng: Mutex<Rng>,
    pub error: Arc<Mutex<Option<Error>>>,
    /// What wgpu refused to do, until it is known why.
    pub refused: Arc<Mutex<Option<Error>>>,
    /// Why it takes no more work, once it does not.
    pub broken: Arc<OnceLock<Error>>,
}

/// A WebGPU device. Ops record and return; reading back waits.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

impl Drop for Device {
    /// A program that ends should not leave a thread in the middle of its driver, nor have compiled in vain. The last handles are
    /// this one, that of [`open::DEVICES`], and those of three threads while they work.
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) <= 5 {
            self.0.settle();
            // Now threads hold none.
            if Arc::strong_count(&self.0) <= 2 {
                lock(&self.0.encoder).save();
            }
        }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WebGpu({}: {})", self.0.id, self.0.report.name)
    }
}

impl Device {
    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Unique among the devices of this process.
    pub fn id(&self) -> usize {
        self.0.id
    }

    pub fn adapter(&self) -> &AdapterReport {
        &self.0.report
    }

    pub fn limits(&self) -> &wgpu::Limits {
        &self.0.limits
    }

    /// The optional features in use.
    pub fn features(&self) -> wgpu::Features {
        self.0.features
    }

    /// Cooperative matrices of f16 are there, give the right numbers, and are not disabled.
    pub fn cooperative(&self) -> bool {
        self.0.coop_tiles().is_some()
    }

    /// They are those that attention is written for.
    pub fn cooperative_attention(&self) -> bool {
        flash_coop::suits(&self.0)
    }

    pub(crate) fn coop_tiles(&self) -> Option<&'static [gemm_coop::Tile]> {
        self.0.coop_tiles()
    }

    /// Whether shaders pack f16 by WGSL's `pack2x16float`.
    pub(crate) fn pack_f16(&self, packs: bool) {
        lock(&self.0.encoder).pack_f16(packs);
    }

    /// Whether the environment asks who calls for a comparison of each op with the CPU's.
    #[inline]
    pub fn verifies(&self) -> bool {
        cfg!(not(target_arch = "wasm32")) && self.0.verify
    }

    /// Whether custom ops without an implementation for the device may run on the CPU ([`crate::CPU_FALLBACK_VAR`]).
    pub fn cpu_fallback(&self) -> bool {
        self.0.cpu_fallback
    }

    /// Whether to do without a kernel, as the environment says.
    pub(crate) fn denies(&self, kernel: &Kernel) -> bool {
        self.0.denies(kernel)
    }

    /// Products of packed bytes are fast, and not disabled.
    pub fn dot4(&self) -> bool {
        self.0.dot4
    }

    /// The threads of a workgroup take turns, so that a barrier costs more than the work between two of them.
    pub fn in_turn(&self) -> bool {
        self.0.in_turn
    }

    /// Smallest and largest subgroup, where subgroup operations may be used.
    pub fn subgroup(&self) -> Option<(u32, u32)> {
        self.0.subgroup()
    }

    /// Counts all that was submitted; what is recorded only does not count yet.
    pub fn stats(&self) -> Stats {
        self.0.settle();
        let c = &self.0.counters;
        let (allocated_bytes, peak_bytes) = self.0.pool.usage();
        Stats {
            dispatches: c.dispatches.load(Ordering::Relaxed),
            submits: c.submits.load(Ordering::Relaxed),
            readbacks: c.readbacks.load(Ordering::Relaxed),
            uploads: c.uploads.load(Ordering::Relaxed),
            pipelines: lock(&self.0.encoder).pipelines() as u64,
            cpu_fallbacks: c.cpu_fallbacks.load(Ordering::Relaxed),
            verified: c.verified.load(Ordering::Relaxed),
            allocated_bytes,
            peak_bytes,
        }
    }

    /// The rules that rewrite recorded ops, and how often each fired since the device was made.
    pub fn rewrites(&self) -> Vec<Fired> {
        self.0.rewrites.report()
    }

    /// Goes by other rules from here on, in the words of [`crate::REWRITE_VAR`]; an empty list is what is usual. What is recorded is
    /// sent by those so far. All who share the device go by them.
    pub fn rewrite_by(&self, rules: &str) -> Result<()> {
        let rules = Set::parse(rules, self.in_turn())?.without(&self.0.denied);
        self.0.go_by(rules)
    }

    /// Counts an op whose result is compared with the CPU's.
    pub fn note_verified(&self) {
        self.0.counters.verified.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a custom op that went through the CPU.
    pub fn note_cpu_fallback(&self) {
        self.0
            .counters
            .cpu_fallbacks
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Copies host bytes to the device. Does not wait.
    pub fn upload(&self, bytes: &[u8]) -> Result<Value> {
        // One number (the id of a token) comes as a parameter: a copy would be a command of its own before all others.
        let elem = match bytes.len() {
            1 => Elem::U8,
            2 => Elem::U16,
            4 => Elem::U32,
            8 => Elem::I64,
            _ => return self.0.upload(bytes),
        };
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        self.0.counters.uploads.fetch_add(1, Ordering::Relaxed);
        self.fill(1, elem, u64::from_le_bytes(bits))
    }

    /// The bytes `from..from + bytes` of a value. Waits for everything recorded before.
    pub fn read(&self, value: &Value, from: u64, bytes: u64) -> Result<Vec<u8>> {
        self.0.read(value, from, bytes)
    }

    /// Starts to read the bytes `from..from + bytes` of a value as it is after everything recorded before.
    pub fn read_async(&self, value: &Value, from: u64, bytes: u64) -> Result<Reading> {
        Reading::start(self.0.clone(), value, from, bytes)
    }

    /// Waits for everything recorded before; reports faults.
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// The same without blocking.
    pub async fn synchronize_async(&self) -> Result<()> {
        self.0.synchronize_async().await
    }

    /// The most bytes of a value that one binding shows. Ops on larger tensors are cut into pieces.
    pub fn binding_limit(&self) -> u64 {
        self.0.binding
    }

    /// A fresh value for `count` elements. Its contents are undefined until an op writes them.
    pub fn output(&self, op: &'static str, count: usize, elem: Elem) -> Result<Value> {
        let bytes = (count as u64).saturating_mul(elem.size() as u64);
        self.0.pool.check(op, bytes)?;
        Ok(Value::logical(&self.0.pool, bytes))
    }

    /// Records one dispatch. Operands are in binding order, from binding 1; a value must not be bound
    /// twice if one of the bindings writes, not even by different windows.
    pub fn record(
        &self,
        spec: Spec,
        operands: &[Window<'_>],
        params: &impl bytemuck::NoUninit,
        grid: Grid,
    ) -> Result<()> {
        self.check_operands(&spec, operands)?;
        self.0
            .record(spec, operands, bytemuck::bytes_of(params), grid, None)
    }

    /// Records a copy, which may become part of the copy before.
    pub(crate) fn record_copy(&self, run: Run, operands: &[Window<'_>]) -> Result<()> {
        if self.0.join(&run, operands)? {
            return Ok(());
        }
        let (spec, params, grid) = run.dispatch()?;
        self.check_operands(&spec, operands)?;
        let params = bytemuck::bytes_of(&params);
        self.0.record(spec, operands, params, grid, Some(run))
    }

    fn check_operands(&self, spec: &Spec, operands: &[Window<'_>]) -> Result<()> {
        for (i, (a, binding)) in operands.iter().zip(spec.kernel.bindings).enumerate() {
            let twice = operands
                .iter()
                .enumerate()
                .any(|(j, b)| i != j && a.value.same(b.value));
            if binding.write && !binding.held && twice {
                return Err(Error::Invalid {
                    op: spec.kernel.name,
                    message: "one operand is both read and written".into(),
                });
            }
            a.check(spec.kernel.name, self)?;
        }
        Ok(())
    }

    /// Where kernels report an index that is out of range; bind it as a `Raw` operand.
    pub fn fault(&self) -> &Value {
        &self.0.fault
    }

    /// The code that names `op` in the fault record. Call it before recording.
    pub fn note_fault(&self, op: &'static str) -> u32 {
        let mut ops = lock(&self.0.fault_ops);
        if let Some(i) = ops.iter().position(|o| *o == op) {
            return i as u32;
        }
        ops.push(op);
        ops.len() as u32 - 1
    }

    /// Reserves `blocks` counter values of the random generator; gives the seed and the first of them.
    pub fn rng_next(&self, blocks: u64) -> (u64, u64) {
        let mut rng = lock(&self.0.rng);
        let first = rng.counter;
        rng.counter = first.wrapping_add(blocks);
        (rng.seed, first)
    }

    pub fn set_seed(&self, seed: u64) {
        *lock(&self.0.rng) = Rng { seed, counter: 0 };
    }

    pub fn seed(&self) -> u64 {
        lock(&self.0.rng).seed
    }
}

impl Inner {
    /// The tiles of products by cooperative matrices, from the largest to the smallest; see [`Device::cooperative`].
    pub fn coop_tiles(&self) -> Option<&'static [gemm_coop::Tile]> {
        self.cooperative.get().copied()
    }

    /// Smallest and largest subgroup, where subgroup operations may be used.
    pub fn subgroup(&self) -> Option<(u32, u32)> {
        let usable = self.features.contains(wgpu::Features::SUBGROUP);
        self.report.subgroup.filter(|_| usable)
    }

    pub fn denies(&self, kernel: &Kernel) -> bool {
        !self.denied.is_empty() && self.denied.contains(&kernel.name)
    }
}
