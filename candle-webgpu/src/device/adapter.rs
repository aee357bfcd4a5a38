//! Finds and ranks adapters, and selects one.

use std::sync::OnceLock;

use crate::device::env::{set, ADAPTER_VAR, BACKEND_VAR};
use crate::device::rank::{kind_name, ranked as rank, Facts};
use crate::device::vulkan;
use crate::error::{Error, Result};
use crate::util::block::{block_on, may_block, Call};
use crate::util::is_wide;

const ADVICE: &str =
    "Install a Vulkan driver (Debian and Ubuntu without a GPU: mesa-vulkan-drivers; \
Fedora: mesa-vulkan-drivers; Arch: vulkan-swrast), or a current GPU driver on Windows and macOS; \
WGPU_BACKEND narrows the backends that are searched";

/// Facts about an adapter.
#[derive(Debug, Clone)]
pub struct AdapterReport {
    /// Position in the ranked list; the argument of `Device::new_webgpu`.
    pub ordinal: usize,
    /// The ordinal of the better adapter of the same GPU, if there is one.
    pub same_gpu_as: Option<usize>,
    pub name: String,
    /// vulkan, metal, dx12, webgpu.
    pub backend: String,
    /// discrete, integrated, virtual, software or other.
    pub kind: String,
    pub driver: String,
    /// Bytes of the adapter's own memory, if Vulkan tells.
    pub memory: Option<u64>,
    /// The HLSL compiler that wgpu uses, on DX12.
    pub compiler: Option<&'static str>,
    pub max_buffer_size: u64,
    pub max_storage_buffer_binding_size: u64,
    /// Bytes.
    pub max_workgroup_storage: u32,
    /// Invocations in a workgroup.
    pub max_invocations: u32,
    /// Bytes.
    pub storage_alignment: u32,
    /// The Vulkan queue family that only computes, if there is one.
    pub compute_queue: Option<u32>,
    /// Optional features that the adapter has and Candle can use.
    pub features: Vec<&'static str>,
    /// All features of the adapter, used or not.
    pub offered: wgpu::Features,
    /// Smallest and largest subgroup size, if subgroups are supported.
    pub subgroup: Option<(u32, u32)>,
    /// Shapes and types of cooperative matrices.
    pub cooperative: Vec<String>,
}

/// Optional features by their names in `CANDLE_WEBGPU_DISABLE`. Each is a fast path with a portable alternative.
pub(crate) const OPTIONAL: &[(&str, wgpu::Features)] = &[
    ("f16", wgpu::Features::SHADER_F16),
    ("subgroups", wgpu::Features::SUBGROUP),
    ("timestamps", wgpu::Features::TIMESTAMP_QUERY),
    ("immediates", wgpu::Features::IMMEDIATES),
    ("pipeline-cache", wgpu::Features::PIPELINE_CACHE),
    (
        COOPERATIVE,
        wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SUBGROUP_BARRIER),
    ),
];

/// Matrices that a subgroup multiplies together.
pub(crate) const COOPERATIVE: &str = "cooperative-matrix";

/// A queue that computes, but does not draw.
pub(crate) const COMPUTE_QUEUE: &str = "compute-queue";
/// The driver on which such a queue is known to be faster, as Vulkan names it.
const COMPUTE_QUEUE_DRIVER: &str = "NVIDIA";

/// Dot products of packed bytes (`dot4I8Packed`). Always available in WGSL, but fast only with hardware support.
pub(crate) const DOT4: &str = "dot4";
/// Rounding to f16 with `pack2x16float` instead of integer arithmetic, if it rounds to nearest even.
pub(crate) const PACK16: &str = "pack16";

/// Kernels without barriers, for software adapters: these run the threads of a workgroup one after the other and switch threads at each
/// barrier.
pub(crate) const SOFTWARE: &str = "software";

/// PCI ids of vendors whose GPUs have a `dot4` instruction: NVIDIA, AMD, Intel. It is not used with [wide](is_wide) subgroups: AMD's GCN has none
/// before Vega 20, and `gemv_dot` runs at one or two waves a SIMD there (docs/compilers.md).
const DOT4_VENDORS: [u32; 3] = [0x10de, 0x1002, 0x8086];

/// The same vendors as browsers name them.
#[cfg(target_arch = "wasm32")]
const DOT4_BROWSER: [&str; 3] = ["nvidia", "amd", "intel"];

type Ranked = (wgpu::Adapter, AdapterReport);

static FOUND: OnceLock<Vec<Ranked>> = OnceLock::new();

/// All adapters, best first. Enumerated once per process; in a browser every time, since an adapter can open only one device.
async fn ranked() -> Vec<Ranked> {
    match FOUND.get() {
        Some(found) if !cfg!(target_arch = "wasm32") => found.clone(),
        _ => {
            let found = search().await;
            FOUND.get_or_init(|| found.clone());
            found
        }
    }
}

async fn search() -> Vec<Ranked> {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle().with_env();
    desc.flags = wgpu::InstanceFlags::empty().with_env();
    let instance = wgpu::Instance::new(desc);
    let found: Vec<wgpu::Adapter> = instance
        .enumerate_adapters(wgpu::Backends::all())
        .await
        .into_iter()
        .filter(|a| {
            a.get_downlevel_capabilities()
                .flags
                .contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
        })
        .collect();
    let facts: Vec<_> = found.iter().map(facts).collect();
    let places = rank(&facts).into_iter().enumerate();
    let ranked = places.map(|(ordinal, place)| {
        let adapter = found[place.index].clone();
        let report = AdapterReport {
            ordinal,
            same_gpu_as: place.same_as,
            ..report(&adapter)
        };
        (adapter, report)
    });
    #[cfg_attr(
        not(target_arch = "wasm32"),
        allow(unused_mut, reason = "changed in browsers")
    )]
    let mut ranked: Vec<Ranked> = ranked.collect();
    #[cfg(target_arch = "wasm32")]
    if let (Some(first), Some(facts)) = (ranked.first_mut(), crate::util::browser::facts().await) {
        first.1.add(facts);
    }
    ranked
}

#[cfg(target_arch = "wasm32")]
impl AdapterReport {
    /// Adds facts that wgpu does not provide in a browser.
    fn add(&mut self, facts: crate::util::browser::Facts) {
        if self.name.is_empty() {
            self.name = facts.name;
        }
        if self.name.is_empty() {
            self.name = "the browser's adapter".into();
        }
        if facts.subgroup.is_some() && self.subgroup.is_none() {
            self.subgroup = facts.subgroup;
            self.features.push("subgroups");
        }
        if facts.software {
            self.kind = kind_name(wgpu::DeviceType::Cpu).into();
            if !self.features.contains(&SOFTWARE) {
                self.features.push(SOFTWARE);
            }
        }
        if !is_wide(self.subgroup) && DOT4_BROWSER.contains(&facts.vendor.as_str()) {
            self.features.push(DOT4);
        }
    }
}

fn facts(adapter: &wgpu::Adapter) -> Facts {
    let (info, features) = (adapter.get_info(), adapter.features());
    let has = |(_, feature): &&(_, wgpu::Features)| features.contains(*feature);
    Facts {
        kind: info.device_type,
        backend: info.backend,
        driver: info.driver,
        ids: (info.vendor, info.device),
        name: info.name,
        features: OPTIONAL.iter().filter(has).count(),
    }
}

/// The HLSL compiler behind a DX12 adapter. wgpu does not name it, but offers 64-bit integers of shader model 6.0, which is DXC's, or neither these nor subgroups.
fn compiler(backend: wgpu::Backend, features: wgpu::Features) -> Option<&'static str> {
    let of_model_6 = wgpu::Features::SUBGROUP | wgpu::Features::SHADER_INT64;
    (backend == wgpu::Backend::Dx12).then(|| match features.intersects(of_model_6) {
        true => "DXC",
        false => "FXC",
    })
}

fn report(adapter: &wgpu::Adapter) -> AdapterReport {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let subgroup = features
        .contains(wgpu::Features::SUBGROUP)
        .then_some((info.subgroup_min_size, info.subgroup_max_size));
    let dot4 = !is_wide(subgroup) && DOT4_VENDORS.contains(&info.vendor);
    let compute_queue = vulkan::compute_queue(adapter);
    let on_compute_queue = compute_queue.is_some() && info.driver == COMPUTE_QUEUE_DRIVER;
    AdapterReport {
        ordinal: 0,
        same_gpu_as: None,
        compiler: compiler(info.backend, features),
        name: info.name.clone(),
        backend: info.backend.to_str().to_string(),
        kind: kind_name(info.device_type).to_string(),
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_string(),
        memory: vulkan::memory(adapter),
        max_buffer_size: limits.max_buffer_size,
        max_storage_buffer_binding_size: limits.max_storage_buffer_binding_size,
        max_workgroup_storage: limits.max_compute_workgroup_storage_size,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        storage_alignment: limits.min_storage_buffer_offset_alignment,
        compute_queue,
        features: OPTIONAL
            .iter()
            .filter(|(_, f)| features.contains(*f))
            .map(|(name, _)| *name)
            .chain(dot4.then_some(DOT4))
            .chain(on_compute_queue.then_some(COMPUTE_QUEUE))
            .chain((info.device_type == wgpu::DeviceType::Cpu).then_some(SOFTWARE))
            .collect(),
        offered: features,
        subgroup,
        cooperative: adapter
            .cooperative_matrix_properties()
            .iter()
            .map(|c| {
                format!(
                    "{}x{}x{} {:?} -> {:?}",
                    c.m_size, c.n_size, c.k_size, c.ab_type, c.cr_type
                )
            })
            .collect(),
    }
}

fn reports(found: Vec<Ranked>) -> Vec<AdapterReport> {
    found.into_iter().map(|(_, report)| report).collect()
}

/// All adapters, best first: discrete, integrated, virtual, other, software, then further adapters of the same GPUs. In a browser, an error unless the call may block.
pub fn adapters() -> Result<Vec<AdapterReport>> {
    if let Some(found) = FOUND.get() {
        return Ok(reports(found.clone()));
    }
    const CALL: Call = ("adapters", "adapters_async");
    may_block(CALL)?;
    Ok(reports(block_on(ranked(), CALL)?))
}

/// [`adapters`] without blocking.
pub async fn adapters_async() -> Vec<AdapterReport> {
    reports(ranked().await)
}

/// The adapter named by `CANDLE_WEBGPU_ADAPTER`, else adapter `ordinal`.
pub(crate) async fn choose(ordinal: usize) -> Result<Ranked> {
    let found = ranked().await;
    let names = || {
        let name =
            |(_, r): &Ranked| format!("{}: {} ({}, {})", r.ordinal, r.name, r.backend, r.kind);
        let list: Vec<String> = found.iter().map(name).collect();
        list.join("; ")
    };
    if found.is_empty() {
        let backends = set(BACKEND_VAR).map(|names| format!(" with WGPU_BACKEND={names}"));
        return Err(Error::NoAdapter {
            found: backends.unwrap_or_default(),
            advice: ADVICE,
        });
    }
    let chosen = match set(ADAPTER_VAR) {
        Some(name) => {
            let name = name.trim();
            let by_index = name.parse().ok().and_then(|i: usize| found.get(i));
            let wanted = name.to_lowercase();
            let is_wanted = |(_, r): &&Ranked| r.name.to_lowercase().contains(&wanted);
            let chosen = by_index.or_else(|| found.iter().find(is_wanted));
            chosen.ok_or_else(|| Error::UnknownAdapter {
                name: name.to_string(),
                found: names(),
            })
        }
        None => found.get(ordinal).ok_or_else(|| Error::BadOrdinal {
            ordinal,
            found: names(),
        }),
    };
    chosen.cloned()
}
