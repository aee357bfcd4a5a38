//! Softmax of long rows.

use candle_webgpu::DType;

use crate::bench::near;

#[test]
fn long_rows() {
    for (dtype, bound) in [(DType::F32, 1e-7), (DType::F16, 1e-4), (DType::Bf16, 1e-3)] {
        for dims in [[1, 50_000], [3, 40_004], [2, 33_333]] {
            let counts = near(bound, |b| vec![b.softmax(&b.of(dtype, &dims))]);
            assert_eq!(counts.0, counts.1 + 1, "{dtype} {dims:?}");
        }
    }
}

#[test]
fn short_rows_stay() {
    let counts = near(0.0, |b| vec![b.softmax(&b.floats(&[300, 1000]))]);
    assert_eq!(counts.0, counts.1);
}
