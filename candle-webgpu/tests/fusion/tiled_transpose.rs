//! Transposing copies.

use candle_webgpu::DType;

use crate::bench::{contiguous_strides, saves, Bench, T};

const DTYPES: [DType; 4] = [DType::U8, DType::F16, DType::F32, DType::I64];

/// Copies of a view of `count` elements, of all dtypes' sizes, to fresh memory and into every second line of a matrix.
fn copies(count: usize, dims: &[usize], strides: &[usize], offset: usize) {
    for dtype in DTYPES {
        saves(0, (dtype, dims), |b| {
            let x = b.of(dtype, &[count]).shown(dims, strides, offset);
            let y = b.device.contiguous(x.v()).expect("a copy");
            let (n, lines) = (x.v().count(), b.of(dtype, &[2 * x.v().count()]));
            let last = dims[dims.len() - 1];
            let mut steps: Vec<_> = contiguous_strides(dims).iter().map(|s| s * 2).collect();
            steps[dims.len() - 1] = 1;
            let to = lines.shown(dims, &steps, last);
            b.copy(&x, &to);
            vec![T::new(y, dtype, dims), lines.shown(&[2 * n], &[1], 0)]
        });
    }
}

#[test]
fn moves_the_same() {
    copies(64 * 128, &[128, 64], &[1, 128], 0);
    copies(100 * 68 + 8, &[68, 100], &[1, 68], 8);
    copies(3 * 20 * 36, &[3, 36, 20], &[720, 1, 36], 0);
    // The two dims need not be neighbours, nor the first of a batch the outermost.
    copies(16 * 5 * 24, &[16, 5, 24], &[1, 384, 16], 0);
    copies(2 * 3 * 16 * 32, &[2, 16, 3, 32], &[512, 1, 1024, 16], 0);
    // What is no whole quad stays as it was.
    copies(17 * 64, &[17, 64], &[1, 17], 0);
    copies(32 * 32 + 1, &[32, 32], &[1, 32], 1);
}

#[test]
fn fires() {
    let b = Bench::new("");
    let x = b.floats(&[64, 32]).shown(&[32, 64], &[1, 32], 0);
    b.device.contiguous(x.v()).expect("a copy");
    b.device.synchronize().expect("no error");
    let rules = b.device.rewrites();
    assert!(rules
        .iter()
        .any(|r| r.rule == "tiled_transpose" && r.times == 1));
}
