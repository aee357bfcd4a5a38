//! How a device is made: from an adapter, the environment, and what is tried out on it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::adapter::{choose, AdapterReport, DOT4, IN_TURN, OPTIONAL, PACK16};
use crate::apart::Apart;
use crate::buffer::{lock, Pool, Value};
use crate::check::Check;
use crate::compile::immediates;
use crate::device::{Device, Inner, Rng};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::kernel::gemm_coop;
use crate::packing;
use crate::queue::{Threads, LOG_VAR};
use crate::readback::FAULT_BYTES;
use crate::rewrite::{self, Rewrites, Set};
use crate::settings::Settings;
use crate::submit;
use crate::wait::{block_on, may_block, poll, Call};
use crate::window::binding_limit;

/// Optional features to do without, separated by commas: forces the portable twins.
pub const DISABLE_VAR: &str = "CANDLE_WEBGPU_DISABLE";
/// Optional features to use though they are not known to be fast on the adapter: `dot4`.
pub const ENABLE_VAR: &str = "CANDLE_WEBGPU_ENABLE";

/// The devices of this process, by their adapters.
pub(super) static DEVICES: Mutex<Vec<(usize, Device)>> = Mutex::new(Vec::new());

/// The names in the environment variable `var`, separated by commas, all of them of optional features.
fn named(var: &str) -> Result<Vec<String>> {
    let list = std::env::var(var).unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|n| !n.is_empty());
    let known: Vec<_> = OPTIONAL
        .iter()
        .map(|(n, _)| *n)
        .chain([DOT4, PACK16, IN_TURN])
        .collect();
    names
        .map(|name| match known.contains(&name) {
            true => Ok(name.to_string()),
            false => Err(Error::UnknownFeature {
                name: name.to_string(),
                known: known.join(", "),
            }),
        })
        .collect()
}

impl Device {
    /// The device on the `ordinal`-th adapter (see [`crate::adapters`]), or on the one that
    /// `CANDLE_WEBGPU_ADAPTER` names. The same adapter gives the same device, until it is lost.
    pub fn new(ordinal: usize) -> Result<Self> {
        const CALL: Call = ("Device::new_webgpu", "Device::new_webgpu_async");
        may_block(CALL)?;
        // Two threads at once should not make two devices.
        #[cfg(not(target_arch = "wasm32"))]
        static OPENING: Mutex<()> = Mutex::new(());
        #[cfg(not(target_arch = "wasm32"))]
        let _opening = lock(&OPENING);
        block_on(Self::new_async(ordinal), CALL)?
    }

    /// The same without blocking.
    pub async fn new_async(ordinal: usize) -> Result<Self> {
        let (adapter, report) = choose(ordinal).await?;
        if let Some(device) = Self::made(report.ordinal) {
            return Ok(device);
        }
        let device = Self::open(&adapter, &report, &rewrite::from_env()).await?;
        // Whoever was faster while this one waited has made the device that all share.
        if let Some(device) = Self::made(report.ordinal) {
            return Ok(device);
        }
        lock(&DEVICES).push((report.ordinal, device.clone()));
        Ok(device)
    }

    /// A device of its own, whatever other devices its adapter has: it shares no memory and no work with them, and tensors pass between
    /// them through the host.
    pub fn separate(ordinal: usize) -> Result<Self> {
        const CALL: Call = ("Device::separate", "Device::separate_async");
        may_block(CALL)?;
        block_on(Self::separate_async(ordinal), CALL)?
    }

    /// The same without blocking.
    pub async fn separate_async(ordinal: usize) -> Result<Self> {
        let (adapter, report) = choose(ordinal).await?;
        Self::open(&adapter, &report, &rewrite::from_env()).await
    }

    /// The device on this adapter, if there is one that is not lost.
    fn made(ordinal: usize) -> Option<Device> {
        let mut devices = lock(&DEVICES);
        devices.retain(|(_, device)| {
            let _ = poll(&device.0.device, None, Some(Duration::ZERO));
            let well = device.0.check_lost().is_ok();
            if !well {
                // wgpu 30 waits for the queue when it is dropped, which may be for ever, or panics (`Queue::drop`).
                std::mem::forget((device.0.device.clone(), device.0.queue.clone()));
            }
            well
        });
        let found = devices.iter().find(|(of, _)| *of == ordinal);
        found.map(|(_, device)| device.clone())
    }

    /// A device of its own, by the rules that are given in the words of [`crate::REWRITE_VAR`].
    pub(crate) async fn open(
        adapter: &wgpu::Adapter,
        report: &AdapterReport,
        rules: &str,
    ) -> Result<Self> {
        let disabled = named(DISABLE_VAR)?;
        let without = |name: &str| disabled.iter().any(|d| d == name);
        let features = OPTIONAL
            .iter()
            .filter(|(name, _)| !without(name))
            .fold(wgpu::Features::empty(), |all, (_, f)| all | *f)
            & adapter.features();
        let enabled = named(ENABLE_VAR)?;
        let has = |name: &str| {
            let here = report.features.contains(&name) || enabled.iter().any(|n| n == name);
            here && !without(name)
        };
        let experimental = if features.intersects(wgpu::Features::all_experimental_mask()) {
            // SAFETY: cooperative matrices are used only where a kernel's table row asks for them.
            unsafe { wgpu::ExperimentalFeatures::enabled() }
        } else {
            wgpu::ExperimentalFeatures::disabled()
        };
        let request = || {
            adapter.request_device(&wgpu::DeviceDescriptor {
                label: Some("candle"),
                required_features: features,
                required_limits: adapter.limits(),
                experimental_features: experimental,
                memory_hints: wgpu::MemoryHints::Performance,
                trace: wgpu::Trace::Off,
            })
        };
        #[cfg(target_arch = "wasm32")]
        let (features, request) = match report.subgroup {
            Some(_) => (
                features | wgpu::Features::SUBGROUP,
                crate::browser::asking_for_subgroups(request),
            ),
            None => (features, Some(request())),
        };
        #[cfg(not(target_arch = "wasm32"))]
        let request = Some(request());
        let failed = |message: String| Error::Device {
            adapter: report.name.clone(),
            message,
        };
        let in_turn = report.features.contains(&IN_TURN);
        let settings = Settings::from_env(in_turn)?;
        let rules = Set::parse(rules, in_turn)?.without(&settings.denied);
        let rewrites = Rewrites::new(rules);
        let request = request.ok_or_else(|| failed("it was not asked for".into()))?;
        let (device, queue) = request.await.map_err(|e| failed(e.to_string()))?;
        let pool = Arc::new(Pool::new(
            device.clone(),
            report.name.clone(),
            settings.memory,
        ));
        let fault = Value::logical(&pool, FAULT_BYTES);
        queue.write_buffer(&fault.block(false)?.buffer, 0, &[0; FAULT_BYTES as usize]);
        let encoder = Encoder::new(&device, report.name.clone());
        let inner = Inner {
            id: Self::next_id(report.ordinal),
            report: report.clone(),
            limits: device.limits(),
            binding: binding_limit(&device.limits())?,
            features,
            dot4: has(DOT4),
            immediates: immediates(&device),
            in_turn: has(IN_TURN),
            timeout: settings.timeout,
            check: settings.check_nan.then(Check::default),
            verify: settings.verify,
            cpu_fallback: settings.cpu_fallback,
            denied: settings.denied,
            cooperative: OnceLock::new(),
            rewrites,
            log: std::env::var(LOG_VAR).is_ok_and(|what| what == "ops"),
            recorder: Apart::default(),
            ahead: encoder.ahead().clone(),
            encoder: Apart(Mutex::new(encoder)),
            sender: Apart::default(),
            params: submit::params(&device),
            held: Apart::default(),
            threads: OnceLock::new(),
            flight: Apart::default(),
            staging: Mutex::default(),
            counters: Apart::default(),
            fault,
            fault_ops: Mutex::default(),
            rng: Mutex::new(Rng {
                seed: 299_792_458,
                counter: 0,
            }),
            error: Arc::default(),
            refused: Arc::default(),
            broken: Arc::default(),
            pool,
            device,
            queue,
        };
        let device = Device(Arc::new(inner));
        device.0.watch();
        if let Some(threads) = Threads::start(&device.0) {
            let _ = device.0.threads.set(threads);
        }
        if !without(PACK16) {
            // A driver that fails at it is one to do without.
            let _ = packing::exact(&device).await;
        }
        // Where workgroups run in turn they gain nothing: llvmpipe of Mesa 26.2 multiplies by `gemm` as fast or faster.
        if features.contains(gemm_coop::FEATURES) && !has(IN_TURN) {
            if let Some(tiles) = gemm_coop::trusted(&device, adapter) {
                let _ = device.0.cooperative.set(tiles);
            }
        }
        Ok(device)
    }

    /// The first device of an adapter has its ordinal; one made after a loss has a new id.
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
