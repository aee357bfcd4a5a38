//! Whether an adapter's `pack2x16float` rounds f32 to f16 as Rust does. WGSL lets it round either way and leaves open what
//! becomes of too large values; where it is right it replaces some 18 integer operations an element.

use half::f16;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::view::View;

/// Each tie between neighbours in f16 and both values beside it, of either sign, and what has no neighbours.
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

/// Tries it on the device. Its shaders pack with it meanwhile, and afterwards if it was right.
pub(crate) async fn exact(device: &Device) -> Result<bool> {
    let values = values();
    device.pack_f16(true);
    let got = converted(device, &values).await;
    let same = |(v, bytes): (&f32, &[u8])| {
        let (right, got) = (f16::from_f32(*v), f16::from_le_bytes([bytes[0], bytes[1]]));
        right.to_bits() == got.to_bits() || right.is_nan() && got.is_nan()
    };
    let exact = got.map(|got| values.iter().zip(got.chunks_exact(2)).all(same));
    device.pack_f16(matches!(exact, Ok(true)));
    exact
}

async fn converted(device: &Device, values: &[f32]) -> Result<Vec<u8>> {
    let value = device.upload(bytemuck::cast_slice(values))?;
    let view = View {
        value: &value,
        dtype: DType::F32,
        dims: &[values.len()],
        strides: &[1],
        offset: 0,
    };
    let y = device.cast(view, DType::F16)?;
    device.read_async(&y, 0, y.bytes())?.bytes().await
}
