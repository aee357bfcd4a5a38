//! candle-nn's sdpa against its formula in f64: scores, softcap, causal mask, mask, softmax, weighted mean of the
//! values.

mod masks;

use anyhow::ensure;
use candle_core::{DType, Device, Result, Tensor, D};
use candle_nn::ops;

use crate::bound;
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, FLOATS};

type View = fn(Tensor) -> Result<Tensor>;

/// Layouts of q, k and v: the dims of the storage for (batch, heads, tokens, columns), and a view of it.
struct Lie {
    name: &'static str,
    base: fn([usize; 4]) -> [usize; 4],
    view: View,
}

#[rustfmt::skip]
const LIES: [Lie; 6] = [
    Lie { name: "contiguous", base: |dims| dims,                          view: Ok },
    // As models' projections give them.
    Lie { name: "tokens",     base: |[b, h, s, d]| [b, s, h, d],          view: |t| t.transpose(1, 2) },
    Lie { name: "cache",      base: |[b, h, s, d]| [b, h, s + 7, d],      view: |t| t.narrow(2, 3, t.dim(2)? - 7) },
    Lie { name: "broadcast",  base: |[_, h, s, d]| [1, h, s, d],          view: |t| { let (_, h, s, d) = t.dims4()?; t.broadcast_as((2, h, s, d)) } },
    // Rows that are not aligned, and rows with gaps.
    Lie { name: "odd",        base: |[b, h, s, d]| [b, h, s, d + 1],      view: |t| t.narrow(3, 1, t.dim(3)? - 1) },
    Lie { name: "columns",    base: |[b, h, s, d]| [b, h, d, s],          view: |t| t.transpose(2, 3) },
];

#[derive(Clone, Copy)]
struct Case {
    dtype: DType,
    batch: usize,
    /// Of q, and of k and v.
    heads: [usize; 2],
    queries: usize,
    keys: usize,
    /// Of q and k, and of v.
    columns: [usize; 2],
    causal: bool,
    cap: f32,
}

impl Case {
    fn new(dtype: DType, queries: usize, keys: usize, d: usize) -> Self {
        Case {
            dtype,
            batch: 2,
            heads: [2, 1],
            queries,
            keys,
            columns: [d, d],
            causal: false,
            cap: 1.,
        }
    }

    fn causal(self, causal: bool) -> Self {
        Case { causal, ..self }
    }

    fn operands(&self, lie: &Lie) -> anyhow::Result<Vec<Operand>> {
        let ([h, g], [d, c]) = (self.heads, self.columns);
        let dims = [
            [self.batch, h, self.queries, d],
            [self.batch, g, self.keys, d],
            [self.batch, g, self.keys, c],
        ];
        let of = |(i, dims): (usize, [usize; 4])| {
            let base = tensor(self.dtype, &(lie.base)(dims), 141 + i as u64, Fill::Small)?;
            Ok(Operand::viewed(base, lie.view))
        };
        dims.into_iter().enumerate().map(of).collect()
    }

    /// Scaled by 1 / sqrt(d), as an f32.
    fn scale(&self) -> f32 {
        (self.columns[0] as f32).sqrt().recip()
    }

    fn formula(&self, t: &[Tensor]) -> Result<Tensor> {
        let repeat = |x: &Tensor| {
            let (b, g, s, d) = x.dims4()?;
            let each = self.heads[0] / g;
            let x = x.unsqueeze(2)?.broadcast_as((b, g, each, s, d))?;
            x.reshape((b, g * each, s, d))
        };
        let (q, k, v) = (&t[0], repeat(&t[1])?, repeat(&t[2])?);
        let mut s = (q.matmul(&k.t()?)? * f64::from(self.scale()))?;
        if self.cap != 1. {
            let cap = f64::from(self.cap);
            s = ((s / cap)?.tanh()? * cap)?;
        }
        if self.causal {
            let hidden = |n: usize| {
                let (i, j) = (n / self.keys, n % self.keys);
                let seen = j + self.queries <= i + self.keys;
                [f64::NEG_INFINITY, 0.][usize::from(seen)]
            };
            let mask: Vec<f64> = (0..self.queries * self.keys).map(hidden).collect();
            s = s.broadcast_add(&Tensor::from_vec(
                mask,
                (self.queries, self.keys),
                &Device::Cpu,
            )?)?;
        }
        if let Some(mask) = t.get(3) {
            s = s.broadcast_add(mask)?;
        }
        ops::softmax(&s, D::Minus1)?.matmul(&v)
    }

    fn check(&self, d: &Device, operands: &[Operand]) -> anyhow::Result<()> {
        check(d, operands, bound::attention(self.dtype, d)?, |t| {
            if t[0].dtype() == DType::F64 {
                return self.formula(t);
            }
            let mask = t.get(3);
            ops::sdpa(
                &t[0],
                &t[1],
                &t[2],
                mask,
                self.causal,
                self.scale(),
                self.cap,
            )
        })
        .map_err(|e| {
            let Case { queries, keys, .. } = self;
            e.context(format!(
                "{queries} queries, {keys} keys, heads {:?}, columns {:?}, causal {}",
                self.heads, self.columns, self.causal
            ))
        })
    }

    fn run(&self, d: &Device) -> anyhow::Result<()> {
        self.check(d, &self.operands(&LIES[0])?)
    }
}

pub fn add(cases: &mut Cases) {
    for dtype in FLOATS {
        let name = dtype.as_str();
        for d in [4, 32, 64, 72, 80, 96, 128, 256] {
            cases.add(format!("attention/{name}/columns/{d}"), move |device| {
                for (queries, keys) in [(1, 1), (1, 300), (2, 70), (8, 9), (9, 300), (33, 40)] {
                    let case = Case::new(dtype, queries, keys, d);
                    case.run(device)?;
                    case.causal(true).run(device)?;
                }
                Case::new(dtype, 128, 128, d).causal(true).run(device)
            });
        }
        for queries in [1, 2, 8, 9, 33, 128] {
            cases.add(format!("attention/{name}/queries/{queries}"), move |d| {
                for keys in [queries, queries + 1, queries + 37, 300] {
                    Case::new(dtype, queries, keys, 64).run(d)?;
                    Case::new(dtype, queries, keys, 64).causal(true).run(d)?;
                }
                // Queries that see no key are NaN.
                Case::new(dtype, queries, 1, 64).run(d)?;
                Case::new(dtype, queries, 1, 64).causal(true).run(d)
            });
        }
        for each in [1, 4, 8, 40] {
            cases.add(format!("attention/{name}/shared_heads/{each}"), move |d| {
                for queries in [1, 3, 8, 33] {
                    let case = Case {
                        heads: [2 * each, 2],
                        ..Case::new(dtype, queries, 70, 64).causal(true)
                    };
                    case.run(d)?;
                }
                Ok(())
            });
        }
        // Many heads share a k and a v, and a workgroup then takes one, two or four of them.
        cases.add(format!("attention/{name}/many_heads"), move |d| {
            for (batch, columns) in [(32, 16), (64, 16), (64, 64), (64, 128), (64, 256)] {
                let case = Case {
                    batch,
                    heads: [16, 4],
                    ..Case::new(dtype, 1, 40, columns)
                };
                case.run(d)?;
                Case { queries: 2, ..case }.causal(true).run(d)?;
            }
            Ok(())
        });
        // So many that f16 uses cooperative matrices (`flash_decode_coop`): rows of one row tile and of two, split keys, padded columns, and scores
        // that rise from key to key.
        cases.add(format!("attention/{name}/many_keys"), move |d| {
            for (batch, each, queries, keys, columns) in [
                (64, 4, 1, 130, 64),
                (64, 8, 2, 150, 64),
                (32, 5, 1, 300, 72),
                (32, 12, 2, 257, 128),
                (16, 7, 1, 600, 16),
            ] {
                let case = Case {
                    batch,
                    heads: [2 * each, 2],
                    ..Case::new(dtype, queries, keys, columns)
                };
                case.run(d)?;
                case.causal(true).check(d, &case.operands(&LIES[2])?)?;
                let rising: Vec<f32> = (0..keys).map(|j| (j / 48 * 9) as f32).collect();
                let mask = Tensor::from_vec(rising, keys, &Device::Cpu)?.to_dtype(dtype)?;
                let mut operands = case.operands(&LIES[1])?;
                operands.push(Operand::of(mask));
                case.check(d, &operands)?;
            }
            Ok(())
        });
        for lie in &LIES {
            cases.add(format!("attention/{name}/layout/{}", lie.name), move |d| {
                for (queries, keys) in [(1, 50), (7, 50), (40, 50)] {
                    let case = Case {
                        heads: [4, 2],
                        ..Case::new(dtype, queries, keys, 72).causal(true)
                    };
                    case.check(d, &case.operands(lie)?)?;
                }
                Ok(())
            });
        }
        masks::add(cases, dtype);
        masks::add_blocks(cases, dtype);
        if dtype != DType::F16 {
            cases.add(format!("attention/{name}/magnitudes"), move |d| {
                magnitudes(d, dtype)
            });
        }
        cases.add(format!("attention/{name}/softcap"), move |d| {
            for (queries, cap) in [(1, 50.), (5, 0.5), (40, 2.), (70, 30.)] {
                let case = Case::new(dtype, queries, 90, 64).causal(true);
                Case { cap, ..case }.run(d)?;
            }
            Ok(())
        });
        cases.add(format!("attention/{name}/columns_of_v"), move |d| {
            for (queries, columns) in [
                (1, [64, 128]),
                (3, [192, 128]),
                (20, [192, 64]),
                (70, [32, 256]),
            ] {
                let case = Case::new(dtype, queries, 90, 4).causal(true);
                Case { columns, ..case }.run(d)?;
            }
            Ok(())
        });
    }
    cases.add("attention/f32/long", |d| {
        // More keys than one workgroup takes, so that they are split.
        for (queries, keys) in [(1, 5000), (9, 3000), (9, 17000)] {
            let case = Case {
                batch: 1,
                ..Case::new(DType::F32, queries, keys, 8).causal(true)
            };
            case.run(d)?;
        }
        Ok(())
    });
    cases.add("attention/great_scores", |d| {
        // Softmax subtracts the greatest score first.
        for queries in [1, 20] {
            let case = Case::new(DType::F32, queries, 90, 64);
            let mut operands = case.operands(&LIES[0])?;
            let q = (operands[0].wide()? * 1000.)?.to_dtype(DType::F32)?;
            let v = Tensor::ones((2, 1, 90, 64), DType::F32, &Device::Cpu)?;
            operands[0] = Operand::of(q);
            operands[2] = Operand::of(v);
            case.check(d, &operands)?;
        }
        Ok(())
    });
    cases.add("attention/refuses", refuses);
}

/// Queries, keys and values beyond the range of f16. Rows differ in magnitude; scores are usual. The values of the keys are in turn about
/// 2^even and 2^odd; results are compared relative to the larger.
fn magnitudes(device: &Device, dtype: DType) -> anyhow::Result<()> {
    let powers = |by: [i32; 2], rows: usize| {
        let of = |i: usize| 2f64.powi(by[i % 2]);
        Tensor::from_vec((0..rows).map(of).collect(), (rows, 1), &Device::Cpu)
    };
    for (queries, d) in [(1, 64), (40, 64), (70, 128), (40, 96), (9, 40)] {
        for [even, odd] in [[30, 30], [-30, -30], [20, -20], [25, 28]] {
            let case = Case::new(dtype, queries, 90, d);
            let mut operands = case.operands(&LIES[0])?;
            let by = [([40, 30], queries), ([-40, -44], 90), ([even, odd], 90)];
            for (operand, (by, rows)) in operands.iter_mut().zip(by) {
                let scaled = operand.wide()?.broadcast_mul(&powers(by, rows)?)?;
                *operand = Operand::of(scaled.to_dtype(dtype)?);
            }
            check(device, &operands, bound::attention(dtype, device)?, |t| {
                let y = match t[0].dtype() {
                    DType::F64 => case.formula(t)?,
                    _ => ops::sdpa(&t[0], &t[1], &t[2], None, false, case.scale(), 1.)?,
                };
                y * 2f64.powi(-even.max(odd))
            })?;
        }
    }
    Ok(())
}

fn refuses(d: &Device) -> anyhow::Result<()> {
    let of = |dims: [usize; 4]| Tensor::zeros(&dims, DType::F32, d);
    let q = of([1, 4, 5, 64])?;
    let k = of([1, 2, 9, 64])?;
    let half = k.to_dtype(DType::F16)?;
    let mask = of([1, 4, 5, 8])?;
    let cases = [
        ("dtypes", &q, &half, &k, None),
        ("heads", &q, &of([1, 3, 9, 64])?, &of([1, 3, 9, 64])?, None),
        ("columns", &q, &of([1, 2, 9, 32])?, &k, None),
        ("keys", &q, &k, &of([1, 2, 8, 64])?, None),
        ("batch", &q, &of([2, 2, 9, 64])?, &of([2, 2, 9, 64])?, None),
        ("wide", &of([1, 4, 5, 260])?, &of([1, 2, 9, 260])?, &k, None),
        ("six", &of([1, 4, 5, 6])?, &of([1, 2, 9, 6])?, &k, None),
        ("none", &q, &of([1, 2, 0, 64])?, &of([1, 2, 0, 64])?, None),
        ("mask", &q, &k, &k, Some(&mask)),
    ];
    for (name, q, k, v, mask) in cases {
        let Err(e) = ops::sdpa(q, k, v, mask, false, 1., 1.) else {
            anyhow::bail!("{name}: no error")
        };
        ensure!(e.to_string().contains("sdpa: q ["), "{name}: {e}");
    }
    let far = Tensor::zeros((5, 9), DType::F32, &Device::Cpu)?;
    let e = ops::sdpa(&q, &k, &k, Some(&far), false, 1., 1.).err();
    ensure!(
        e.is_some_and(|e| e.to_string().contains("not on the device")),
        "a mask on the CPU passes"
    );
    // No queries, no result.
    let y = ops::sdpa(&of([1, 4, 0, 64])?, &k, &k, None, true, 1., 1.)?;
    ensure!(y.dims() == [1, 4, 0, 64]);
    Ok(())
}
