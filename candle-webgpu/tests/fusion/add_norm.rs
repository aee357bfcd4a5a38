//! Residual sums and the norms behind them.

use candle_webgpu::DType;

use crate::bench::saves;

#[test]
fn of_each_kind() {
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        for dims in [[1, 2048], [7, 36], [300, 64], [3, 5000]] {
            for (centered, read_again) in
                [(false, true), (false, false), (true, true), (true, false)]
            {
                saves(1, (dtype, dims, centered, read_again), |b| {
                    let (x, y) = (b.of(dtype, &dims), b.of(dtype, &dims));
                    let [alpha, beta] = [0; 2].map(|_| b.of(dtype, &dims[1..]));
                    let sum = b.binary("badd", &x, &y);
                    let norm = match centered {
                        true => b.layer_norm(&sum, [&alpha, &beta]),
                        false => b.rms_norm(&sum, &alpha),
                    };
                    match read_again {
                        true => vec![norm, b.unary("uneg", &sum), sum],
                        false => vec![norm],
                    }
                });
            }
        }
    }
}

#[test]
fn stays_apart() {
    saves(0, "rows of partial quads", |b| {
        let (x, y) = (b.floats(&[3, 7]), b.floats(&[3, 7]));
        vec![b.rms_norm(&b.binary("badd", &x, &y), &b.of(DType::F32, &[7]))]
    });
    saves(0, "an operand is broadcast", |b| {
        let x = b.floats(&[4, 8]);
        let y = b.floats(&[8]).shown(&[4, 8], &[0, 1], 0);
        vec![b.rms_norm(&b.binary("badd", &x, &y), &b.of(DType::F32, &[8]))]
    });
    saves(0, "an op in between reads the sum", |b| {
        let (x, y) = (b.floats(&[4, 8]), b.floats(&[4, 8]));
        let alpha = b.of(DType::F32, &[8]);
        let sum = b.binary("badd", &x, &y);
        vec![b.softmax(&sum), b.rms_norm(&sum, &alpha)]
    });
}
