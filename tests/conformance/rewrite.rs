//! Runs of ops of which the recorder's rules make other kernels: nothing is read back in between, and nothing in between is held.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use crate::bound::{self, ARITH, MATMUL};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand, FLOATS};

/// Products of the same rows, beside each other.
fn siblings(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let products = t[1..].iter().map(|w| t[0].matmul(&w.t()?));
    Tensor::cat(&products.collect::<candle_core::Result<Vec<_>>>()?, 1)
}

/// As candle-transformers' llama has it, with heads of k and v repeated and scores in f32.
fn attention(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let [q, k, v] = [0, 1, 2].map(|i| t[i].clone());
    let dtype = q.dtype();
    let (b, h, i, d) = q.dims4()?;
    let (_, g, j, _) = k.dims4()?;
    let repeat = |x: Tensor| -> candle_core::Result<Tensor> {
        Tensor::cat(&vec![&x; h / g], 2)?.reshape((b, h, j, d))
    };
    let wide = |x: Tensor| match dtype {
        DType::F64 => Ok(x),
        _ => x.to_dtype(DType::F32),
    };
    let (q, k, v) = (wide(q)?, wide(repeat(k)?)?, wide(repeat(v)?)?);
    let scores = (q.matmul(&k.t()?)? / (d as f64).sqrt())?;
    let scores = match i {
        1 => scores,
        _ => {
            let marks: Vec<u8> = (0..i * j)
                .map(|at| u8::from(at % j + i > at / j + j))
                .collect();
            let marks = Tensor::from_vec(marks, (i, j), q.device())?;
            let hidden = Tensor::new(f32::NEG_INFINITY, q.device())?.to_dtype(scores.dtype())?;
            let shape = scores.shape().clone();
            marks
                .broadcast_as(&shape)?
                .where_cond(&hidden.broadcast_as(&shape)?, &scores)?
        }
    };
    let weights = match dtype {
        DType::F64 => ops::softmax(&scores, 3)?,
        _ => ops::softmax_last_dim(&scores)?,
    };
    weights.matmul(&v)?.to_dtype(dtype)
}

/// A value by itself and less itself, both NaN where it is infinite, in one chain with what made it.
fn same_operands(t: &[Tensor]) -> candle_core::Result<Tensor> {
    let x = t[0].abs()?;
    let quotient = x.div(&x)?;
    let none = t[0].neg()?;
    let difference = none.sub(&none)?;
    Tensor::stack(&[quotient, difference], 0)
}

pub fn add(cases: &mut Cases) {
    for dtype in FLOATS {
        let name = dtype.as_str();
        cases.add(format!("rewrite/same_operands/{name}"), move |d| {
            let special = [0., -0., 1., -3., f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
            let x = Tensor::new(&special.repeat(5)[..], &Device::Cpu)?.to_dtype(dtype)?;
            check(d, &[Operand::of(x)], ARITH, same_operands)
        });
        for (m, k, columns) in [
            (1, 512, [40, 8, 8]),
            (3, 640, [12, 4100, 4100]),
            (8, 64, [7, 9, 5]),
        ] {
            cases.add(format!("rewrite/siblings/{name}/{m}x{k}"), move |d| {
                let x = tensor(dtype, &[m, k], 401, Fill::Small)?;
                let mut operands = vec![Operand::of(x)];
                for (seed, n) in (402..).zip(columns) {
                    operands.push(Operand::of(tensor(dtype, &[n, k], seed, Fill::Small)?));
                }
                check(d, &operands, MATMUL, siblings)
            });
        }
        for [b, h, g, i, j, d] in [
            [1, 8, 2, 1, 150, 16],
            [2, 4, 4, 1, 33, 8],
            [2, 6, 2, 13, 40, 32],
            [1, 4, 2, 130, 130, 64],
            [1, 2, 2, 70, 200, 96],
        ] {
            cases.add(
                format!("rewrite/attention/{name}/{h}x{i}x{j}"),
                move |device| {
                    let q = tensor(dtype, &[b, h, i, d], 411, Fill::Small)?;
                    let k = tensor(dtype, &[b, g, j, d], 412, Fill::Small)?;
                    let v = tensor(dtype, &[b, g, j, d], 413, Fill::Small)?;
                    let bound = bound::attention(dtype, device)?;
                    check(device, &[q, k, v].map(Operand::of), bound, attention)
                },
            );
        }
    }
}
