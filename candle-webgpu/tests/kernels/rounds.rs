//! Loops of more rounds than llvmpipe runs: it stops an invocation's loop after 65,535.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use candle_webgpu::{DType, Device, Value, View};

const LONG: usize = 1 << 22;

/// A matrix of ones.
fn matrix<'a>(value: &'a Value, dims: &'a [usize; 2], strides: &'a [usize; 2]) -> View<'a> {
    View::new("test", value, DType::F32, (dims, strides, 0)).unwrap()
}

fn ones(d: &Device, n: usize) -> Value {
    d.fill(n, DType::F32, 1f32.to_bits().into()).unwrap()
}

fn floats(d: &Device, v: &Value) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&d.read(v, 0, v.bytes()).unwrap())
}

#[test]
fn a_product_of_many_terms() {
    let d = Device::new(0).unwrap();
    let x = ones(&d, 2 * LONG);
    for strides in [[2, 1], [1, LONG]] {
        let a = matrix(&x, &[2, LONG], &[LONG, 1]);
        let b = matrix(&x, &[LONG, 2], &strides);
        let y = d.matmul(a, b, (1, 2, 2, LONG)).unwrap();
        assert_eq!(floats(&d, &y), [LONG as f32; 4]);
    }
}

#[test]
fn a_column_of_many_ids() {
    const IDS: usize = 200_000;
    let d = Device::new(0).unwrap();
    let (x, sum) = (ones(&d, IDS), d.fill(1, DType::F32, 0).unwrap());
    let ids = d.fill(IDS, DType::U32, 0).unwrap();
    let src = matrix(&x, &[IDS, 1], &[1, 1]);
    let ids = View::new("test", &ids, DType::U32, (&[IDS, 1], &[1, 1], 0)).unwrap();
    let dst = matrix(&sum, &[1, 1], &[1, 1]);
    d.scatter_add(dst, ids, src, 0).unwrap();
    assert_eq!(floats(&d, &sum), [IDS as f32]);
}

/// So many sums that each thread computes one.
#[test]
fn sums_of_many_rows() {
    const DIMS: [usize; 2] = [70_000, 8200];
    let d = Device::new(0).unwrap();
    let x = ones(&d, DIMS[1]);
    let y = d.reduce("sum", matrix(&x, &DIMS, &[0, 1]), &[0]).unwrap();
    assert!(floats(&d, &y).iter().all(|v| *v == DIMS[0] as f32));
}

#[test]
fn a_convolution_of_many_channels() {
    const CHANNELS: usize = 80_000;
    let d = Device::new(0).unwrap();
    let x = ones(&d, 2 * CHANNELS);
    let layout = (&[1, CHANNELS, 2][..], &[0, 2, 1][..], 0);
    let line = View::new("test", &x, DType::F32, layout).unwrap();
    let window = candle_webgpu::kernel::conv::ConvParams {
        stride: 1,
        padding: 0,
        dilation: 1,
        output_padding: 0,
    };
    let y = d.conv(line, line, window).unwrap();
    assert_eq!(floats(&d, &y), [2.0 * CHANNELS as f32]);
}
