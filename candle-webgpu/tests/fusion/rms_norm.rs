//! RMS norms by single ops.

use candle_webgpu::DType;

use crate::bench::{near_by, same_bits_by, Bench, FLOATS, T};

const RULES: [&str; 2] = ["", "-rms_norm"];

/// An RMS norm as Gemma computes it: in f32, with a division by sqrt(mean + eps), rounded, times 1 + w.
struct Norm {
    x: T,
    w: T,
}

impl Norm {
    fn new(b: &Bench, dtype: DType, dims: [usize; 2]) -> Self {
        Norm {
            x: b.of(dtype, &dims),
            w: b.of(dtype, &dims[1..]),
        }
    }

    fn record(&self, b: &Bench) -> T {
        let Norm { x, w } = self;
        let affine = |x: &T, by: [f64; 2]| x.like(b.device.unary("affine", x.v(), by));
        let cast = |x: &T, to| match x.dtype == to {
            true => x.clone(),
            false => b.cast(x, to),
        };
        let (wide, n) = (cast(x, DType::F32), x.dims[1]);
        let root = b.along("sum", &b.unary("usqr", &wide), |sum| {
            let mean = affine(sum, [1. / n as f64, 0.]);
            b.unary("usqrt", &affine(&mean, [1., 1e-6]))
        });
        let y = cast(&b.binary("bdiv", &wide, &root), x.dtype);
        let weight = affine(w, [1., 1.]);
        b.binary("bmul", &y, &weight.shown(&x.dims, &[0, 1], 0))
    }
}

/// Elements within 2 * 3, rounded three times instead of once; sums of k products with weights within 2 / k of them.
fn bound(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 2. * 3. * 4. / 1024.,
        DType::Bf16 => 2. * 3. * 4. / 128.,
        _ => 2. * 3. * 4. / (1 << 20) as f32,
    }
}

/// A matrix (n, k) of elements within 2 / k.
fn matrix(b: &Bench, dtype: DType, n: usize, k: usize) -> T {
    let w = b.scaled(&b.floats(&[n, k]), 1. / k as f64);
    b.device.synchronize().expect("no error");
    let w = b.cast(&w, dtype);
    b.device.synchronize().expect("no error");
    w
}

#[test]
fn before_matmuls() {
    for dtype in FLOATS {
        for [m, k] in [[1, 64], [1, 1152], [5, 72], [40, 256]] {
            let (with, without) = near_by(RULES, bound(dtype), |b| {
                let norm = Norm::new(b, dtype, [m, k]);
                let w = matrix(b, dtype, 40, k);
                let pass = |_| {
                    let y = b.linear(&norm.record(b), &w);
                    b.device.synchronize().expect("no error");
                    y
                };
                [0; 4].map(pass).into()
            });
            // One row is normalized by its matmul. The weight is a kernel of its own in the first pass.
            let saved = if m == 1 { 4 } else { 0 };
            assert_eq!(without + 1 - with, saved, "{dtype} {m} {k}");
        }
    }
}

/// A weight that is written is not taken from an earlier pass.
#[test]
fn weights_that_change() {
    let (with, without) = near_by(RULES, bound(DType::F16), |b| {
        let norm = Norm::new(b, DType::F16, [3, 64]);
        let (w, other) = (matrix(b, DType::F16, 8, 64), b.of(DType::F16, &[64]));
        let mut all = Vec::new();
        for pass in 0..4 {
            if pass == 2 {
                b.copy(&other, &norm.w);
            }
            all.push(b.linear(&norm.record(b), &w));
            b.device.synchronize().expect("no error");
        }
        all
    });
    // The weight is a kernel of its own in the first pass, in the third, which also writes it, and in the fourth.
    assert_eq!(with, without + 3);
}

#[test]
fn stay_apart() {
    let unchanged = |run: &dyn Fn(&Bench) -> Vec<T>, what: &str| {
        let (with, without) = same_bits_by(RULES, run);
        assert_eq!(with, without, "{what}");
    };
    let norm = |b: &Bench| Norm::new(b, DType::F16, [3, 64]);
    unchanged(&|b| vec![norm(b).record(b)], "read later");
    unchanged(
        &|b| {
            let (norm, x) = (norm(b), b.of(DType::F16, &[3, 64]));
            vec![b.binary("badd", &norm.record(b), &x)]
        },
        "added to something",
    );
    unchanged(
        &|b| {
            let (x, w) = (b.of(DType::F16, &[3, 64]), b.of(DType::F16, &[8, 64]));
            let affine = |x: &T, by| x.like(b.device.unary("affine", x.v(), by));
            let root = b.along("sum", &b.unary("usqr", &x), |sum| {
                b.unary("usqrt", &affine(&affine(sum, [1. / 64., 0.]), [1., 1e-6]))
            });
            let alpha = w.shown(&[3, 64], &[0, 1], 0);
            vec![b.linear(&b.binary("bmul", &b.binary("bdiv", &x, &root), &alpha), &w)]
        },
        "a sum in f16",
    );
    unchanged(
        &|b| {
            let (norm, w) = (norm(b), b.of(DType::F16, &[8, 64]));
            let y = norm.record(b);
            vec![b.linear(&y, &w), b.unary("uneg", &y)]
        },
        "also read by an elementwise op",
    );
}
