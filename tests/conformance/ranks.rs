//! Tensors of every rank that occurs in practice, contiguous and reversed, in each family of ops. The layouts of unary
//! ops, binary ops and copies include ranks 0, 7 and 8.

use candle_core::{DType, Tensor, D};
use candle_nn::ops;

use crate::bound::{Bound, EXACT, MATMUL, SOFTMAX, SUM};
use crate::case::Cases;
use crate::input::{check, tensor, Fill, Operand};

const SIZES: [usize; 8] = [2, 3, 2, 1, 2, 2, 1, 2];

/// A dtype of one word, one with several elements per word, and one of two words.
const DTYPES: [DType; 3] = [DType::F32, DType::U8, DType::I64];

type Op = fn(&Tensor) -> candle_core::Result<Tensor>;

/// The name, the least rank, the bound, the op.
#[rustfmt::skip]
const OPS: &[(&str, usize, Bound, Op)] = &[
    ("cast",         0, EXACT, |x| x.to_dtype(DType::F16)),
    ("where_cond",   0, EXACT, |x| x.ne(&x.zeros_like()?)?.where_cond(x, &x.ones_like()?)),
    ("sum_all",      0, SUM,   Tensor::sum_all),
    ("sum_first",    1, SUM,   |x| x.sum(0)),
    ("sum_outer",    2, SUM,   |x| x.sum((0, D::Minus1))),
    ("max_last",     1, EXACT, |x| x.max(D::Minus1)),
    ("argmin_first", 1, EXACT, |x| x.argmin(0)),
    ("cat_first",    1, EXACT, |x| Tensor::cat(&[x, x], 0)),
    ("cat_last",     1, EXACT, |x| Tensor::cat(&[x, x], D::Minus1)),
    ("stack",        0, EXACT, |x| Tensor::stack(&[x, x], 0)),
    ("index_select", 1, EXACT, |x| x.index_select(&Tensor::new(&[1u32, 0, 1], x.device())?, last_of_two(x))),
    ("gather",       1, EXACT, |x| x.contiguous()?.gather(&first_ids(x)?, last_of_two(x))),
    ("scatter",      1, EXACT, |x| x.contiguous()?.scatter(&first_ids(x)?, &x.ones_like()?.contiguous()?, last_of_two(x))),
    ("scatter_add",  1, EXACT, |x| x.contiguous()?.scatter_add(&first_ids(x)?, &x.ones_like()?.contiguous()?, last_of_two(x))),
    ("index_add",    1, EXACT, |x| x.index_add(&Tensor::zeros(2, DType::U32, x.device())?, x, last_of_two(x))),
    ("sort",         1, EXACT, |x| Ok(x.contiguous()?.sort_last_dim(false)?.0)),
    ("one_set",      0, EXACT, |x| { let y = x.copy()?; y.one_set()?; Ok(y) }),
];

/// A dim of size 2.
fn last_of_two(x: &Tensor) -> usize {
    x.dims().iter().rposition(|n| *n == 2).unwrap_or(0)
}

fn first_ids(x: &Tensor) -> candle_core::Result<Tensor> {
    Tensor::zeros(x.dims(), DType::U32, x.device())
}

fn reversed(t: Tensor) -> candle_core::Result<Tensor> {
    let dims: Vec<usize> = (0..t.rank()).rev().collect();
    t.permute(dims)
}

pub fn add(cases: &mut Cases) {
    for rank in 0..=SIZES.len() {
        for &(name, _, bound, op) in OPS.iter().filter(|(_, least, ..)| rank >= *least) {
            for dtype in DTYPES {
                cases.add(format!("rank/{name}/{}/{rank}", dtype.as_str()), move |d| {
                    let x = tensor(dtype, &SIZES[..rank], 141, Fill::Ties)?;
                    check(d, &[Operand::of(x.clone())], bound, |t| op(&t[0]))?;
                    check(d, &[Operand::viewed(x, reversed)], bound, |t| op(&t[0]))
                });
            }
        }
    }
    for rank in 1..=SIZES.len() {
        cases.add(format!("rank/softmax/f32/{rank}"), move |d| {
            let x = tensor(DType::F32, &SIZES[..rank], 142, Fill::Small)?;
            check(d, &[Operand::of(x)], SOFTMAX, |t| match t[0].dtype() {
                DType::F64 => ops::softmax(&t[0], D::Minus1),
                _ => ops::softmax_last_dim(&t[0]),
            })
        });
    }
    for rank in 3..=6 {
        cases.add(format!("rank/matmul/f32/{rank}"), move |d| {
            let matrices = |last: [usize; 2], seed| {
                let dims = [&SIZES[..rank - 2], &last].concat();
                tensor(DType::F32, &dims, seed, Fill::Small)
            };
            let operands = [matrices([5, 4], 143)?, matrices([4, 3], 144)?];
            check(d, &operands.map(Operand::of), MATMUL, |t| {
                // The CPU refuses more than two batch dims.
                match t[0].device().is_cpu() {
                    false => t[0].matmul(&t[1])?.flatten_to(rank - 3),
                    true => t[0]
                        .flatten_to(rank - 3)?
                        .matmul(&t[1].flatten_to(rank - 3)?),
                }
            })
        });
    }
}
