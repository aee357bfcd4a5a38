//! Selects the device of an example, and describes it.

use crate::error::{Error, Result};
use candle_core::{DType, Device};
use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum DeviceKind {
    /// The first available one of CUDA, Metal, WebGPU and CPU.
    #[default]
    Auto,
    Webgpu,
    Cpu,
    Cuda,
    Metal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Precision {
    F32,
    F16,
    Bf16,
}

impl Precision {
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// The device options that every example has.
#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Device to run on
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceKind,

    /// WebGPU adapter: its number or part of its name (see webgpu-info)
    #[arg(long, value_name = "NAME|INDEX")]
    pub adapter: Option<String>,
}

impl DeviceArgs {
    pub fn open(&self) -> Result<Device> {
        if let Some(adapter) = &self.adapter {
            // Opening the device reads the variable. No other thread runs yet.
            std::env::set_var("CANDLE_WEBGPU_ADAPTER", adapter);
        }
        match self.device {
            DeviceKind::Cpu => Ok(Device::Cpu),
            DeviceKind::Cuda if !cfg!(feature = "cuda") => Err(Error::NotCompiled("cuda")),
            DeviceKind::Cuda => Ok(Device::new_cuda(0)?),
            DeviceKind::Metal if !cfg!(feature = "metal") => Err(Error::NotCompiled("metal")),
            DeviceKind::Metal => Ok(Device::new_metal(0)?),
            DeviceKind::Webgpu => webgpu::open(),
            DeviceKind::Auto if self.adapter.is_some() => webgpu::open(),
            DeviceKind::Auto => Ok(auto()),
        }
    }
}

/// The first device that opens. Prints a message for each device that is present but fails to open.
fn auto() -> Device {
    let mut candidates: Vec<fn() -> Result<Device>> = Vec::new();
    if candle_core::utils::cuda_is_available() {
        candidates.push(|| Ok(Device::new_cuda(0)?));
    }
    if candle_core::utils::metal_is_available() {
        candidates.push(|| Ok(Device::new_metal(0)?));
    }
    if cfg!(feature = "webgpu") {
        candidates.push(webgpu::open);
    }
    for open in candidates {
        match open() {
            Ok(device) => {
                if let Some(hint) = webgpu::hint(&device) {
                    eprintln!("{hint}");
                }
                return device;
            }
            Err(e) => {
                let message = e.to_string();
                let first = message.lines().next().unwrap_or_default();
                eprintln!("skipping a device: {first}");
            }
        }
    }
    Device::Cpu
}

/// A device for reports: its kind and the adapter's name.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    pub device: String,
    pub adapter: Option<String>,
}

impl std::fmt::Display for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.adapter {
            Some(adapter) => write!(f, "{}, {adapter}", self.device),
            None => write!(f, "{}", self.device),
        }
    }
}

pub fn describe(device: &Device) -> Description {
    let name = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
        Device::Metal(_) => "metal",
        Device::WebGpu(_) => "webgpu",
    };
    Description {
        device: name.to_string(),
        adapter: webgpu::adapter_name(device),
    }
}

/// Counters of a WebGPU device since its creation.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    pub dispatches: u64,
    pub submits: u64,
    pub uploads: u64,
    pub readbacks: u64,
    pub pipelines: u64,
    pub cpu_fallbacks: u64,
    pub allocated_bytes: u64,
    pub peak_bytes: u64,
}

/// A fusion rule of a WebGPU device, and how often it fired since the device's creation.
#[derive(Clone, Copy, Debug)]
pub struct Fired {
    pub rule: &'static str,
    pub about: &'static str,
    pub on: bool,
    pub times: u64,
}

/// GPU time of a kernel's dispatches.
#[derive(Clone, Debug)]
pub struct KernelTime {
    pub kernel: String,
    pub times: u64,
    pub seconds: f64,
}

/// GPU times of the kernels that some work ran.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Slowest first.
    pub kernels: Vec<KernelTime>,
    /// The trace of all dispatches for chrome://tracing and ui.perfetto.dev.
    pub trace: String,
}

pub use crate::adapter::is_software;
pub use webgpu::{counters, fired, has_clock, memory_limits, on_gpu, profiled};

#[cfg(feature = "webgpu")]
mod webgpu {
    use super::*;

    pub fn open() -> Result<Device> {
        Ok(Device::new_webgpu(0)?)
    }

    /// A warning if the WebGPU adapter is a software adapter.
    pub fn hint(device: &Device) -> Option<String> {
        let name = &device.as_webgpu_device().ok()?.adapter().name;
        is_software(device).then(|| {
            format!("{name} is a software adapter: --device cpu is faster on this machine")
        })
    }

    pub fn adapter_name(device: &Device) -> Option<String> {
        let adapter = device.as_webgpu_device().ok()?.adapter();
        Some(format!("{}, {}", adapter.name, adapter.backend))
    }

    pub fn counters(device: &Device) -> Option<Counters> {
        let stats = device.as_webgpu_device().ok()?.stats();
        Some(Counters {
            dispatches: stats.dispatches,
            submits: stats.submits,
            uploads: stats.uploads,
            readbacks: stats.readbacks,
            pipelines: stats.pipelines,
            cpu_fallbacks: stats.cpu_fallbacks,
            allocated_bytes: stats.allocated_bytes,
            peak_bytes: stats.peak_bytes,
        })
    }

    /// The most bytes of one tensor and, if known, of all tensors together, on a WebGPU device.
    pub fn memory_limits(device: &Device) -> Option<(u64, Option<u64>)> {
        let runtime = device.as_webgpu_device().ok()?.runtime();
        Some((runtime.limits().max_buffer_size, runtime.memory_limit()))
    }

    /// Runs `work` and times its kernels.
    pub fn profiled<E: From<Error>>(
        device: &Device,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Profile, E> {
        let start = || Ok(device.as_webgpu_device()?.runtime().profile()?);
        let profile = start().map_err(|e: candle_core::Error| Error::from(e))?;
        work()?;
        let timings = profile.finish().map_err(candle_core::Error::from);
        let timings = timings.map_err(Error::from)?;
        let trace = candle_core::webgpu_backend::runtime::chrome_trace(&timings);
        let mut kernels = std::collections::HashMap::<String, (u64, u64)>::new();
        for timing in timings {
            let (times, nanoseconds) = kernels.entry(timing.kernel).or_default();
            *times += 1;
            *nanoseconds += timing.duration;
        }
        let mut all: Vec<_> = kernels
            .into_iter()
            .map(|(kernel, (times, nanoseconds))| KernelTime {
                kernel,
                times,
                seconds: nanoseconds as f64 / 1e9,
            })
            .collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(Profile {
            kernels: all,
            trace,
        })
    }

    /// Whether the device supports GPU timestamps.
    pub fn has_clock(device: &Device) -> bool {
        let device = device.as_webgpu_device();
        device.is_ok_and(|device| device.runtime().stopwatch().is_ok())
    }

    /// Runs `work` and returns its GPU time: the sum over its submits, without the gaps between them.
    pub fn on_gpu<E: From<candle_core::Error>>(
        device: &Device,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Duration, E> {
        let start = || candle_core::Result::Ok(device.as_webgpu_device()?.runtime().stopwatch()?);
        let watch = start()?;
        work()?;
        Ok(watch.finish().map_err(candle_core::Error::from)?)
    }

    pub fn fired(device: &Device) -> Vec<Fired> {
        let rules = device.as_webgpu_device().map(|d| d.runtime().rewrites());
        let each = rules.unwrap_or_default().into_iter();
        let rule = |f: candle_core::webgpu_backend::runtime::Fired| Fired {
            rule: f.rule,
            about: f.about,
            on: f.on,
            times: f.times,
        };
        each.map(rule).collect()
    }
}

#[cfg(not(feature = "webgpu"))]
mod webgpu {
    use super::*;

    pub fn open() -> Result<Device> {
        Err(Error::NotCompiled("webgpu"))
    }

    pub fn hint(_: &Device) -> Option<String> {
        None
    }

    pub fn adapter_name(_: &Device) -> Option<String> {
        None
    }

    pub fn counters(_: &Device) -> Option<Counters> {
        None
    }

    pub fn memory_limits(_: &Device) -> Option<(u64, Option<u64>)> {
        None
    }

    pub fn profiled<E: From<Error>>(
        _: &Device,
        _: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Profile, E> {
        Err(Error::NotCompiled("webgpu").into())
    }

    pub fn has_clock(_: &Device) -> bool {
        false
    }

    pub fn on_gpu<E: From<candle_core::Error>>(
        _: &Device,
        _: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Duration, E> {
        Err(candle_core::Error::Msg("no WebGPU device is compiled in".into()).into())
    }

    pub fn fired(_: &Device) -> Vec<Fired> {
        Vec::new()
    }
}
