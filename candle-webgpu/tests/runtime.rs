//! The runtime on a real adapter: recording, readback, memory, errors.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use candle_webgpu::kernel::copy::FILL;
use candle_webgpu::shader::{Access, Specialization};
use candle_webgpu::{DType, Device, Error, Grid, Quant, View};
use std::io::Read;

fn device() -> Device {
    Device::new(0).expect("an adapter (a software one will do)")
}

fn upload(d: &Device, x: &[f32]) -> candle_webgpu::Value {
    d.upload(bytemuck::cast_slice(x)).unwrap()
}

fn view<'a>(
    value: &'a candle_webgpu::Value,
    dims: &'a [usize],
    strides: &'a [usize],
    offset: usize,
) -> View<'a> {
    View::new("test", value, DType::F32, (dims, strides, offset)).unwrap()
}

fn floats(d: &Device, v: &candle_webgpu::Value) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&d.read(v, 0, v.bytes()).unwrap())
}

#[test]
fn same_adapter_same_device() {
    assert_eq!(device().id(), device().id());
}

#[test]
fn thousands_of_ops_in_order() {
    let d = device();
    let one = upload(&d, &[1.0; 5]);
    let mut x = upload(&d, &[0.0, 1.0, 2.0, 3.0, 4.0]);
    for _ in 0..3000 {
        x = d
            .binary("badd", view(&x, &[5], &[1], 0), view(&one, &[5], &[1], 0))
            .unwrap();
    }
    assert_eq!(floats(&d, &x), [3000.0, 3001.0, 3002.0, 3003.0, 3004.0]);
}

#[test]
fn strides_offsets_and_broadcasts() {
    let d = device();
    let x: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let v = upload(&d, &x);
    // (4, 3), the transpose of a (3, 4) that starts at 5.
    let t = d.contiguous(view(&v, &[4, 3], &[1, 4], 5)).unwrap();
    let expected: Vec<f32> = (0..4)
        .flat_map(|r| (0..3).map(move |c| (5 + r + 4 * c) as f32))
        .collect();
    assert_eq!(floats(&d, &t), expected);
    let b = d.contiguous(view(&v, &[2, 8], &[0, 1], 8)).unwrap();
    assert_eq!(floats(&d, &b)[8..], x[8..16]);
}

#[test]
fn an_upload_does_not_disturb_pending_ops() {
    let d = device();
    for round in 0..50 {
        let a = upload(&d, &[round as f32; 64]);
        let b = d
            .binary("badd", view(&a, &[64], &[1], 0), view(&a, &[64], &[1], 0))
            .unwrap();
        drop(a);
        let _noise = upload(&d, &[-1.0; 64]);
        assert_eq!(floats(&d, &b), [2.0 * round as f32; 64]);
    }
}

#[test]
fn threads_share_a_device() {
    std::thread::scope(|s| {
        for t in 0..8 {
            s.spawn(move || {
                let d = device();
                for i in 0..40 {
                    let n = 100 + t * 37 + i;
                    let a = upload(&d, &vec![t as f32; n]);
                    let y = d.unary("uneg", view(&a, &[n], &[1], 0), [0.0; 2]).unwrap();
                    assert_eq!(floats(&d, &y), vec![-(t as f32); n]);
                }
            });
        }
    });
}

#[test]
fn a_decode_loop_reuses_memory() {
    let d = device();
    let x = upload(&d, &[1.0; 4096]);
    let mut before = 0;
    for i in 0..200 {
        let mut y = d
            .unary("uneg", view(&x, &[4096], &[1], 0), [0.0; 2])
            .unwrap();
        for _ in 0..20 {
            y = d
                .unary("uneg", view(&y, &[4096], &[1], 0), [0.0; 2])
                .unwrap();
        }
        let _ = floats(&d, &y);
        if i == 20 {
            before = d.stats().allocated_bytes;
        }
    }
    // Other tests share the device: allow for theirs, not for 200 rounds of 20 buffers.
    assert!(d.stats().allocated_bytes < before + (8 << 20));
}

#[test]
fn too_large_is_an_error() {
    let d = device();
    assert!(matches!(
        d.output("test", 1 << 40, DType::F32),
        Err(Error::TooLarge { .. })
    ));
}

#[test]
fn bindings_are_limited() {
    let d = device();
    let n = d.binding_limit() as usize + 4;
    let x = d.output("test", n, DType::U8).unwrap();
    let spec = Specialization::new(&FILL, "", &[(DType::U8, Access::Put)]);
    let whole = d.record(spec, &[(&x).into()], &[n as u32, 0, 7, 0], Grid::Linear(1));
    assert!(matches!(whole, Err(Error::TooLarge { .. })));
}

#[test]
fn reading_past_the_end_is_an_error() {
    let d = device();
    let x = upload(&d, &[1.0; 4]);
    assert!(matches!(d.read(&x, 8, 16), Err(Error::Invalid { .. })));
}

/// Kernels run without bounds checks.
#[test]
fn a_view_that_reaches_past_its_value_is_refused() {
    let d = device();
    let x = upload(&d, &[0.0; 12]);
    let seen = |dims: &[usize], strides: &[usize], offset| {
        View::new("test", &x, DType::F32, (dims, strides, offset)).is_ok()
    };
    assert!(seen(&[3, 4], &[4, 1], 0));
    assert!(seen(&[2, 4], &[4, 1], 4));
    assert!(seen(&[1 << 40], &[0], 11));
    assert!(seen(&[1, 4], &[usize::MAX, 1], 8));
    assert!(seen(&[0, 4], &[4, 1], usize::MAX));
    assert!(!seen(&[3, 4], &[4, 1], 1));
    assert!(!seen(&[2, 4], &[9, 1], 0));
    assert!(!seen(&[2], &[usize::MAX], 0));
    assert!(!seen(&[], &[], 12));
    assert!(!seen(&[4], &[], 0));
    assert!(!seen(&[1 << 40, 1 << 40], &[0, 0], 0));
    assert!(!seen(&[1 << 40, 1 << 40, 0], &[0, 0, 0], 0));
}

/// Found by fuzzing layouts: their sizes overflowed.
#[test]
fn results_that_are_too_large_are_errors() {
    let d = device();
    let x = upload(&d, &[1.0]);
    let most = 1usize << 62;
    let wide = view(&x, &[1 << 62, 1], &[0, 0], 0);
    let row = view(&x, &[1, 64], &[0, 0], 0);
    for done in [
        d.matmul(wide, row, (1, most, 64, 1)),
        d.reduce("sum", wide, &[1]),
        d.reduce("sum", wide, &[0]),
        d.binary("badd", wide, wide),
        d.contiguous(wide),
    ] {
        assert!(done.is_err(), "{done:?}");
    }
}

/// Uploads `bytes` bytes, which `rest` may not have, and returns the largest part that was read at once.
fn upload_from(
    d: &Device,
    quant: Option<Quant>,
    bytes: usize,
    mut rest: &[u8],
) -> Result<(candle_webgpu::Value, usize), std::io::Error> {
    let mut largest = 0;
    let value = d.upload_from(quant, bytes, |part: &mut [u8]| {
        largest = part.len().max(largest);
        rest.read_exact(part).map_err(ReadError)
    });
    value.map(|value| (value, largest)).map_err(|e| e.0)
}

struct ReadError(std::io::Error);

impl From<Error> for ReadError {
    fn from(error: Error) -> Self {
        ReadError(std::io::Error::other(error))
    }
}

#[test]
fn uploads_in_chunks() {
    // Other tests count the bytes of the shared device.
    let d = Device::separate(0).unwrap();
    // Whole blocks of Q4_0 that are no whole groups, and three chunks.
    let blocks = 1_000_001;
    let bytes: Vec<u8> = (0..blocks * 18).map(|i| (i % 251) as u8).collect();
    let (value, largest) = upload_from(&d, None, bytes.len(), &bytes).unwrap();
    assert_eq!(d.read(&value, 0, value.bytes()).unwrap(), bytes);
    assert!(largest < bytes.len() / 2, "{largest} bytes at once");
    let quant = Quant::Q4_0;
    let (value, _) = upload_from(&d, Some(quant), bytes.len(), &bytes).unwrap();
    let packed = d.read(&value, 0, value.bytes()).unwrap();
    assert_eq!(packed, *quant.info().pack(&bytes));
    let empty = upload_from(&d, None, 0, &[]).unwrap().0;
    assert_eq!(empty.bytes(), 0);
    let short = upload_from(&d, None, bytes.len(), &bytes[1..]);
    assert_eq!(short.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(d.read(&value, 0, value.bytes()).unwrap(), packed);
}
