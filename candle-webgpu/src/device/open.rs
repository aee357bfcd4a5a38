//! Opens a device on an adapter, configured by the environment and by self-tests of optional features.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::device::adapter::{choose, AdapterReport, COMPUTE_QUEUE, DOT4, OPTIONAL, SOFTWARE};
use crate::device::env::{set, DISABLE_VAR, ENABLE_VAR, REWRITE_VAR};
use crate::device::facade::{Core, Handle};
use crate::device::features::{states, tested, Refused};
use crate::device::kept::faults;
use crate::device::settings::{named, Settings};
use crate::device::vulkan;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::executor::readback::FAULT_BYTES;
use crate::executor::wait::poll;
use crate::executor::Executor;
use crate::fusion::{Rewrites, RuleSet};
use crate::memory::binding_range::binding_limit;
use crate::memory::buffer::Value;
use crate::memory::pool::Pool;
use crate::recorder::gpu::Gpu;
use crate::recorder::Recorder;
use crate::shader::pipeline_cache::Pipelines;
use crate::util::block::{block_on, may_block, Call};
use crate::util::lock;

/// The shared devices of this process: adapter ordinal, device, and its handle while a user holds one.
static DEVICES: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

type Opened = (usize, Arc<Core>, Weak<Handle>);

impl Device {
    /// The device on adapter `ordinal` (see [`crate::adapters`]), or on the adapter named by `CANDLE_WEBGPU_ADAPTER`. Repeated calls for an
    /// adapter return the same device until it is lost.
    pub fn new(ordinal: usize) -> Result<Self> {
        const CALL: Call = ("Device::new_webgpu", "Device::new_webgpu_async");
        may_block(CALL)?;
        // Serialize calls, so that concurrent threads do not open two devices.
        #[cfg(not(target_arch = "wasm32"))]
        static OPENING: Mutex<()> = Mutex::new(());
        #[cfg(not(target_arch = "wasm32"))]
        let _opening = lock(&OPENING);
        block_on(Self::new_async(ordinal), CALL)?
    }

    /// [`Device::new`] without blocking.
    pub async fn new_async(ordinal: usize) -> Result<Self> {
        let (adapter, report) = choose(ordinal).await?;
        if let Some(device) = Self::shared(report.ordinal) {
            return Ok(device);
        }
        let device = Self::open(&adapter, &report, &set(REWRITE_VAR).unwrap_or_default()).await?;
        // Another task may have opened the device in the meantime.
        if let Some(device) = Self::shared(report.ordinal) {
            return Ok(device);
        }
        let core = device.0 .0.clone();
        lock(&DEVICES).push((report.ordinal, core, Arc::downgrade(&device.0)));
        Ok(device)
    }

    /// A new device that shares nothing with other devices of its adapter; tensors move between them through the host.
    pub fn separate(ordinal: usize) -> Result<Self> {
        const CALL: Call = ("Device::separate", "Device::separate_async");
        may_block(CALL)?;
        block_on(Self::separate_async(ordinal), CALL)?
    }

    /// [`Device::separate`] without blocking.
    pub async fn separate_async(ordinal: usize) -> Result<Self> {
        let (adapter, report) = choose(ordinal).await?;
        Self::open(&adapter, &report, &set(REWRITE_VAR).unwrap_or_default()).await
    }

    /// The shared device of an adapter, if one exists and is not lost.
    fn shared(ordinal: usize) -> Option<Device> {
        let mut devices = lock(&DEVICES);
        devices.retain(|(_, core, _)| {
            let executor = &core.executor;
            let _ = poll(&executor.device, None, Some(Duration::ZERO));
            let usable = executor.check_lost().is_ok();
            if !usable {
                // Leak it: when dropped, wgpu 30 waits for the queue, possibly forever, or panics (`Queue::drop`).
                std::mem::forget((executor.device.clone(), executor.queue.clone()));
            }
            usable
        });
        let (_, core, shared) = devices.iter_mut().find(|(of, _, _)| *of == ordinal)?;
        let handle = shared.upgrade().unwrap_or_else(|| {
            let handle = Arc::new(Handle(core.clone()));
            *shared = Arc::downgrade(&handle);
            handle
        });
        Some(Device(handle))
    }

    /// Opens a device with fusion rules in the syntax of [`crate::REWRITE_VAR`].
    pub(crate) async fn open(
        adapter: &wgpu::Adapter,
        report: &AdapterReport,
        rules: &str,
    ) -> Result<Self> {
        let settings = Settings::from_env(report)?;
        let enabled = named(ENABLE_VAR)?;
        let disabled = named(DISABLE_VAR)?.into_iter();
        let disabled = disabled.map(|name| (name, DISABLE_VAR.to_string()));
        let faults = faults(report).into_iter();
        let faults = faults.filter(|(name, _)| !enabled.contains(name));
        let refused: Refused = disabled.chain(faults).collect();
        let without = |name: &str| refused.iter().any(|(refused, _)| *refused == name);
        let features = OPTIONAL
            .iter()
            .filter(|(name, _)| !without(name))
            .fold(wgpu::Features::empty(), |all, (_, f)| all | *f)
            & adapter.features();
        let has = |name: &str| {
            let here = report.features.contains(&name) || enabled.contains(&name);
            here && !without(name)
        };
        let experimental = if features.intersects(wgpu::Features::all_experimental_mask()) {
            // SAFETY: only kernels whose table row requests cooperative matrices use them.
            unsafe { wgpu::ExperimentalFeatures::enabled() }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let limits = match settings.default_limits {
            true => wgpu::Limits::default(),
            false => adapter.limits(),
        };
        let desc = wgpu::DeviceDescriptor {
            label: Some("candle"),
            required_features: features,
            required_limits: limits,
            experimental_features: experimental,
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let compute_queue = report.compute_queue.filter(|_| has(COMPUTE_QUEUE));
        let request = || adapter.request_device(&desc);
        #[cfg(target_arch = "wasm32")]
        let (features, request) = match report.subgroup {
            Some(_) => (
                features | wgpu::Features::SUBGROUP,
                crate::util::browser::asking_for_subgroups(request),
            ),
            None => (features, Some(request())),
        };
        #[cfg(not(target_arch = "wasm32"))]
        let request = compute_queue.is_none().then(request);
        let failed = |message: String| Error::Device {
            adapter: report.name.clone(),
            message,
        };
        let software = has(SOFTWARE);
        let rules = RuleSet::parse(REWRITE_VAR, rules, software)?;
        let (device, queue) = match (compute_queue, request) {
            (Some(family), _) => vulkan::request_device(adapter, &desc, family).map_err(failed)?,
            (None, Some(request)) => request.await.map_err(|e| failed(e.to_string()))?,
            (None, None) => return Err(failed("the browser has no WebGPU".into())),
        };
        let limits = device.limits();
        let pool = Arc::new(Pool::new(
            device.clone(),
            report.name.clone(),
            settings.memory,
            binding_limit(&limits, settings.binding),
        ));
        let fault = Value::logical(&pool, FAULT_BYTES);
        queue.write_buffer(&fault.block(false)?.buffer, 0, &[0; FAULT_BYTES as usize]);
        let gpu = Arc::new(Gpu {
            name: report.name.clone(),
            limits,
            features,
            subgroup: report
                .subgroup
                .filter(|_| features.contains(wgpu::Features::SUBGROUP)),
            dot4: has(DOT4),
            software,
            workgroups: settings.workgroups,
            reduced_f32: AtomicBool::new(settings.reduced_f32),
            denied: settings.denied,
            cooperative: OnceLock::new(),
            pool,
            fault,
            fault_ops: Mutex::default(),
        });
        let pipelines = Pipelines::new(
            device.clone(),
            report.name.clone(),
            settings.checked,
            settings.cache,
        );
        let executor = Executor::new(
            gpu.clone(),
            (device, queue),
            pipelines,
            Rewrites::new(rules),
            settings.executor,
        );
        let core = Core {
            id: Self::next_id(report.ordinal),
            report: report.clone(),
            recorder: Recorder::new(
                gpu,
                executor.clone(),
                executor.options.check_nan,
                settings.longest_batch,
            ),
            executor,
            verify: settings.verify,
            cpu_fallback: settings.cpu_fallback,
            features: OnceLock::new(),
            cpu_fallbacks: AtomicU64::new(0),
            verified: AtomicU64::new(0),
        };
        let device = Device(Arc::new(Handle(Arc::new(core))));
        device.use_rules(rules);
        let refused = tested(&device, refused, adapter).await;
        let states = states(report, &enabled, &refused);
        device.core().features.get_or_init(|| states);
        Ok(device)
    }

    /// The id of a new device: the ordinal for the first device of an adapter, else a fresh number.
    fn next_id(ordinal: usize) -> usize {
        static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        static NEXT: AtomicUsize = AtomicUsize::new(1 << 16);
        let mut taken = lock(&TAKEN);
        if taken.contains(&ordinal) {
            return NEXT.fetch_add(1, Ordering::Relaxed);
        }
        taken.push(ordinal);
        ordinal
    }
}
