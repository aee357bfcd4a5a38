//! Self-tests of optional features: whether `pack2x16float` rounds f32 to f16 to nearest even, and whether cooperative matrices multiply
//! exactly. WGSL leaves the rounding and overflow of `pack2x16float` open; if exact, it replaces some 18 integer operations per element.

use std::time::{Duration, Instant};

use half::f16;

use crate::device::adapter::{AdapterReport, COMPUTE_QUEUE, COOPERATIVE, DOT4, PACK16, SOFTWARE};
use crate::device::settings::known_features;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::gemm_coop::{self, Tile, TILES};
use crate::kernel::matmul::gemv_coop;
use crate::kernel::matmul::plan::Plan;
use crate::kernel::matmul::problem::{Problem, OP};
use crate::memory::buffer::Value;
use crate::memory::split::Part;
use crate::memory::view::View;
use crate::shader::{Access, Specialization};
use crate::util::lock;

/// An optional feature on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureState {
    /// As in `CANDLE_WEBGPU_DISABLE`.
    pub name: &'static str,
    /// Why the device does without the feature; `None` if it uses it.
    pub off: Option<String>,
}

/// Features that are off though the adapter has them, with the reasons.
pub(crate) type Refused = Vec<(&'static str, String)>;

/// All optional features on a device that has turned off `refused`. `enabled` are on though the adapter does not report them.
pub(crate) fn states(
    report: &AdapterReport,
    enabled: &[&str],
    refused: &Refused,
) -> Vec<FeatureState> {
    let available = |name| {
        [DOT4, SOFTWARE].contains(&name) || name == COMPUTE_QUEUE && report.compute_queue.is_some()
    };
    let off = |name| {
        let refused = refused.iter().find(|(refused, _)| *refused == name);
        let reported = name == PACK16 || report.features.contains(&name);
        match refused {
            Some((_, reason)) => Some(reason.clone()),
            None if reported || available(name) && enabled.contains(&name) => None,
            None if name == SOFTWARE => Some("not a software adapter".into()),
            None if available(name) => Some("not known to be fast on this adapter".into()),
            None => Some("the adapter lacks it".into()),
        }
    };
    let state = |name| FeatureState {
        name,
        off: off(name),
    };
    known_features().map(state).collect()
}

/// Tests the features that have to prove themselves, and adds those that fail to `refused`.
pub(crate) async fn tested(
    device: &Device,
    mut refused: Refused,
    adapter: &wgpu::Adapter,
) -> Refused {
    let packs = refused.iter().all(|(name, _)| *name != PACK16);
    if packs && !pack_f16_if_exact(device).await {
        // Shaders round with integer arithmetic.
        refused.push((PACK16, "its self-test failed".into()));
    }
    if device.features.contains(gemm_coop::FEATURES) {
        // On llvmpipe (Mesa 26.2), `gemm` is at least as fast as cooperative matrices.
        let trusted = match device.software {
            true => Err("slower than other kernels on a software adapter"),
            false => trusted(device, adapter),
        };
        match trusted {
            Ok(at) => drop(device.cooperative.set(at)),
            Err(reason) => refused.push((COOPERATIVE, reason.into())),
        }
    }
    refused
}

/// Test values of either sign: every f16, every midpoint of two adjacent f16 with its two f32 neighbours, and special values.
fn values() -> Vec<f32> {
    let infinite = f16::INFINITY.to_bits();
    let ends = [f32::INFINITY, f32::NAN, f32::MAX, 1e-45, 0.0].into_iter();
    let ties = (0..infinite).flat_map(|bits| {
        let low = f16::from_bits(bits).to_f32();
        let high = match bits + 1 == infinite {
            true => 65536.0,
            false => f16::from_bits(bits + 1).to_f32(),
        };
        let tie = (low + high) / 2.0;
        [low, tie.next_down(), tie, tie.next_up()]
    });
    ends.chain(ties).flat_map(|v| [v, -v]).collect()
}

/// Tests `pack2x16float` on the device and enables it if it rounds to nearest even. Returns whether it does.
async fn pack_f16_if_exact(device: &Device) -> bool {
    let values = values();
    lock(&device.executor().encoder).pipelines.pack_f16(true);
    let got = converted(device, &values).await;
    let same = |(v, bytes): (&f32, &[u8])| {
        let (right, got) = (f16::from_f32(*v), f16::from_le_bytes([bytes[0], bytes[1]]));
        right.to_bits() == got.to_bits() || right.is_nan() && got.is_nan()
    };
    let exact = got.is_ok_and(|got| values.iter().zip(got.chunks_exact(2)).all(same));
    lock(&device.executor().encoder).pipelines.pack_f16(exact);
    exact
}

async fn converted(device: &Device, values: &[f32]) -> Result<Vec<u8>> {
    let value = device.upload(bytemuck::cast_slice(values))?;
    let all = Part::all(&value, DType::F32, &[values.len()]);
    let y = device.cast(all.view(), DType::F16)?;
    device.read_async(&y, 0, y.bytes())?.bytes().await
}

/// PCI id of the vendor whose cooperative matrices are from 0.0007 to 20 times as fast as other kernels (llama.cpp#24404). They are timed,
/// which others are spared: compiling one more kernel takes longer than all else in opening a device.
const INTEL: u32 = 0x8086;

/// Whether cooperative matrices multiply faster than the kernel that takes their place. Call it while the device does not use them yet.
fn gains(device: &Device, tile: &Tile) -> Result<bool> {
    const SIDE: usize = 512;
    let value = device.fill(SIDE * SIDE, DType::F16, 0)?;
    let all = Part::all(&value, DType::F16, &[SIDE, SIDE]);
    let best = |run: &dyn Fn() -> Result<Value>| {
        let mut best = Duration::MAX;
        // The first run compiles.
        for _ in 0..4 {
            let start = Instant::now();
            run()?;
            device.synchronize()?;
            best = best.min(start.elapsed());
        }
        Result::Ok(best)
    };
    let with = best(&|| multiplied(device, &value, &Matmul::square(tile, SIDE, [SIDE, 1], true)))?;
    let without = best(&|| device.matmul(all.view(), all.view(), (1, SIDE, SIDE, SIDE)))?;
    Ok(with < without)
}

/// A matmul whose operands are views of the same f16 elements, and the kernel for it.
struct Matmul {
    /// Rows, columns, and elements along k.
    size: [usize; 3],
    /// Strides of a and b along their rows and columns.
    strides: [[usize; 2]; 2],
    spec: Specialization,
    /// Rows and columns of a tile.
    tile: [u32; 2],
}

impl Matmul {
    /// A square matrix times itself by `gemm_coop`.
    fn square(tile: &Tile, side: usize, strides: [usize; 2], octets: bool) -> Self {
        let along_k = [strides[1] == 1, strides[0] == 1];
        let y = (DType::F32, Access::Put);
        Matmul {
            size: [side; 3],
            strides: [strides; 2],
            spec: gemm_coop::spec(tile, octets, along_k, false, y, false, gemm_coop::F16),
            tile: [tile.m, tile.n],
        }
    }

    /// 16 rows by `gemv_coop`. Within the first 9,216 elements.
    fn rows() -> Self {
        let tile = &gemv_coop::TILES[0];
        Matmul {
            size: [tile.rows as usize, tile.cols as usize, 576],
            strides: [[576, 1], [1, 512]],
            spec: gemv_coop::spec(tile, DType::F32),
            tile: [tile.rows, tile.cols],
        }
    }
}

/// The product in f32.
fn multiplied(device: &Device, x: &Value, matmul: &Matmul) -> Result<Value> {
    let [m, n, k] = matmul.size;
    let [a, b] = &matmul.strides;
    let (a_dims, b_dims) = ([m, k], [k, n]);
    let view = |dims, strides| View::new(OP, x, DType::F16, (dims, strides, 0));
    let (a, b) = (view(&a_dims, a)?, view(&b_dims, b)?);
    let problem = Problem::new(a, b, [1, m, n, k], DType::F32)?;
    let [rows, columns] = matmul.tile;
    let rows = (m as u32).div_ceil(rows);
    let plan = Plan {
        rows,
        ..Plan::new(matmul.spec.clone(), rows * (n as u32).div_ceil(columns))
    };
    let y = device.output(plan.spec.op, m * n, DType::F32)?;
    let ranges = [x.into(), x.into(), (&y).into()];
    let (params, grid) = (problem.params(&plan, 0), problem.grid(&plan));
    device.record(plan.spec, &ranges, &params, grid)?;
    Ok(y)
}

/// The first cooperative matrix configuration (an index into `TILES`) that the adapter lists and that passes the self-test. The error is
/// the reason to use none.
fn trusted(device: &Device, adapter: &wgpu::Adapter) -> std::result::Result<usize, &'static str> {
    let lanes = device
        .subgroup
        .ok_or("they need subgroups, which are off")?;
    let listed = adapter.cooperative_matrix_properties();
    let mut reason = "the adapter lists no configuration that a kernel uses";
    for (at, tiles) in TILES.iter().enumerate() {
        if let Some(tile) = tiles.last().filter(|tile| tile.suits(&listed, lanes)) {
            let loses = || {
                let timed = cfg!(test) || adapter.get_info().vendor == INTEL;
                timed && !gains(device, tile).unwrap_or(false)
            };
            reason = match multiplies_exactly(device, tile).unwrap_or(false) {
                true if loses() => "slower than other kernels on this adapter",
                true => return Ok(at),
                false => "their self-test failed",
            };
        }
    }
    Err(reason)
}

/// The self-test: multiplies small multiples of 2^-15 (some subnormal in f16), whose products and sums are exact in f32. Covers both
/// layouts of each matrix, loads of 8 and 4 elements, and `gemv_coop`, which relies on a barrier of subgroups.
fn multiplies_exactly(device: &Device, tile: &Tile) -> Result<bool> {
    const SIDE: usize = 96;
    let number = |i: usize| f16::from_f32(((i * 7 % 15) as f32 - 7.) / 32768.);
    let values: Vec<f16> = (0..SIDE * SIDE).map(number).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let value = device.upload(&bytes)?;
    let ways = [([SIDE, 1], true), ([1, SIDE], true), ([SIDE, 1], false)];
    let squares = ways.map(|(strides, octets)| Matmul::square(tile, SIDE, strides, octets));
    let rows = gemv_coop::suits(device, tile).then(Matmul::rows);
    let matmuls: Vec<Matmul> = squares.into_iter().chain(rows).collect();
    // All are recorded before one is read, so their pipelines compile at the same time.
    let results = matmuls.iter().map(|p| multiplied(device, &value, p));
    let results: Vec<Value> = results.collect::<Result<_>>()?;
    for (matmul, y) in matmuls.iter().zip(&results) {
        let ([_, n, depth], [a, b]) = (matmul.size, matmul.strides);
        let at = |[row, col]: [usize; 2], s: [usize; 2]| values[row * s[0] + col * s[1]].to_f32();
        let got = device.read(y, 0, y.bytes())?;
        let right = got.chunks_exact(4).enumerate().all(|(i, bytes)| {
            let terms = (0..depth).map(|k| at([i / n, k], a) * at([k, i % n], b));
            bytemuck::pod_read_unaligned::<f32>(bytes) == terms.sum::<f32>()
        });
        if !right {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit tests time them on every adapter. NVIDIA's are the faster kernels.
    #[test]
    fn cooperative_matrices_that_win_stay() -> Result<()> {
        let device = Device::separate(0)?;
        let states = device.optional_features();
        let state = states.iter().find(|f| f.name == COOPERATIVE);
        let off = state.and_then(|f| f.off.as_deref());
        println!("{}: {off:?}", device.adapter().name);
        assert!(off.is_none() || !device.adapter().name.contains("NVIDIA"));
        Ok(())
    }
}
