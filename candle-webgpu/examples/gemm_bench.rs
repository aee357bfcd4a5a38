//! Times matrix products and the fused ops on adapter 0: `cargo run --release -p candle-webgpu --example gemm_bench [FILTER]`.

use std::time::Instant;

use candle_webgpu::{Device, Elem, Result, Value, View};

/// What a case does in one run.
struct Work {
    flops: f64,
    bytes: f64,
}

/// A contiguous (outer, inner) matrix, or its transpose.
struct Matrix {
    value: Value,
    elem: Elem,
    dims: [usize; 2],
    strides: [usize; 2],
}

impl Matrix {
    fn new(d: &Device, elem: Elem, rows: usize, cols: usize) -> Result<Self> {
        let bits = if elem == Elem::F32 {
            0x3c23_d70a
        } else {
            0x2000
        };
        Ok(Matrix {
            value: d.fill(rows * cols, elem, bits)?,
            elem,
            dims: [rows, cols],
            strides: [cols, 1],
        })
    }

    fn t(mut self) -> Self {
        self.dims.reverse();
        self.strides.reverse();
        self
    }

    fn view(&self) -> View<'_> {
        View {
            value: &self.value,
            elem: self.elem,
            dims: &self.dims,
            strides: &self.strides,
            offset: 0,
        }
    }
}

/// Repeats until about half a second has passed; prints time, TFLOP/s and GB/s of one run.
fn time(d: &Device, name: &str, work: Work, run: impl Fn() -> Result<Value>) -> Result<()> {
    if std::env::args().nth(1).is_some_and(|f| !name.contains(&f)) {
        return Ok(());
    }
    run()?;
    d.synchronize()?;
    let mut runs = 1;
    loop {
        let start = Instant::now();
        for _ in 0..runs {
            run()?;
        }
        d.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        if seconds > 0.25 || runs >= 20_000 {
            let each = seconds / f64::from(runs);
            println!(
                "{name:44} {:10.1} us {:8.2} TFLOP/s {:8.0} GB/s",
                each * 1e6,
                work.flops / each / 1e12,
                work.bytes / each / 1e9
            );
            return Ok(());
        }
        let wanted = (0.5 / seconds * f64::from(runs)).ceil();
        runs = (wanted.min(20_000.0) as u32).max(runs * 2);
    }
}

fn product(d: &Device, elem: Elem, (m, k, n): (usize, usize, usize), weight: bool) -> Result<()> {
    let a = Matrix::new(d, elem, m, k)?;
    let b = if weight {
        Matrix::new(d, elem, n, k)?.t()
    } else {
        Matrix::new(d, elem, k, n)?
    };
    let work = Work {
        flops: 2.0 * (m * k * n) as f64,
        bytes: ((m * k + k * n + m * n) * elem.size()) as f64,
    };
    let stored = if weight { "[n, k]" } else { "[k, n]" };
    let name = format!("matmul {elem} {m} x {k} x {n} b {stored}");
    time(d, &name, work, || {
        d.matmul(a.view(), b.view(), (1, m, n, k))
    })
}

/// Attention of one new token of 32 heads of 64 over `len` tokens.
fn decode_attention(d: &Device, elem: Elem, len: usize) -> Result<()> {
    let q = d.fill(32 * 64, elem, 0)?;
    let kv = d.fill(32 * len * 64, elem, 0)?;
    let p = d.fill(32 * len, elem, 0)?;
    let view = |value, dims, strides| View {
        value,
        elem,
        dims,
        strides,
        offset: 0,
    };
    let work = || Work {
        flops: 2.0 * (32 * 64 * len) as f64,
        bytes: (32 * 64 * len * elem.size()) as f64,
    };
    let (dims, strides) = ([32, 64, len], [64 * len, 1, 64]);
    time(d, &format!("q k^T {elem} {len}"), work(), || {
        d.matmul(
            view(&q, &[32, 1, 64], &[64, 64, 1]),
            view(&kv, &dims, &strides),
            (32, 1, len, 64),
        )
    })?;
    let (p_dims, p_strides) = ([32, 1, len], [len, len, 1]);
    let (dims, strides) = ([32, len, 64], [64 * len, 64, 1]);
    time(d, &format!("p v {elem} {len}"), work(), || {
        d.matmul(
            view(&p, &p_dims, &p_strides),
            view(&kv, &dims, &strides),
            (32, 1, 64, len),
        )
    })
}

fn main() -> Result<()> {
    let d = Device::new(0)?;
    println!("{}", d.adapter().name);
    for elem in [Elem::F32, Elem::F16, Elem::Bf16] {
        for shape in [(1024, 1024, 1024), (4096, 4096, 4096)] {
            product(&d, elem, shape, false)?;
            product(&d, elem, shape, true)?;
        }
        product(&d, elem, (512, 2048, 5632), true)?;
        product(&d, elem, (512, 2048, 2048), true)?;
        product(&d, elem, (32, 2048, 2048), true)?;
        for n in [256, 2048, 5632, 32000] {
            product(&d, elem, (1, 2048, n), true)?;
        }
        product(&d, elem, (1, 5632, 2048), true)?;
        product(&d, elem, (4, 2048, 5632), true)?;
        product(&d, elem, (8, 2048, 5632), true)?;
        product(&d, elem, (1, 2048, 5632), false)?;
        decode_attention(&d, elem, 100)?;
        decode_attention(&d, elem, 2001)?;
        for (rows, n) in [(4096, 4096), (32, 513), (1, 32000)] {
            let x = Matrix::new(&d, elem, rows, n)?;
            let work = Work {
                flops: 0.0,
                bytes: (2 * rows * n * elem.size()) as f64,
            };
            time(&d, &format!("softmax {elem} {rows} x {n}"), work, || {
                d.softmax_last_dim(x.view())
            })?;
        }
        for (rows, n) in [(512, 2048), (1, 2048)] {
            let x = Matrix::new(&d, elem, rows, n)?;
            let alpha = d.fill(n, elem, 0)?;
            let alpha = View {
                value: &alpha,
                elem,
                dims: &[n],
                strides: &[1],
                offset: 0,
            };
            let work = Work {
                flops: 0.0,
                bytes: (2 * rows * n * elem.size()) as f64,
            };
            time(&d, &format!("rms_norm {elem} {rows} x {n}"), work, || {
                d.rms_norm(x.view(), alpha, 1e-5)
            })?;
        }
    }
    Ok(())
}
