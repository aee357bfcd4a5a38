//! Operands and parameters by family: what a `Row` names as its `draw`.

mod attention;
pub mod block;
mod index;
mod linear;
mod nn;

pub use index::*;
pub use linear::*;
pub use nn::*;

use candle_core::DType;

use crate::draw::{call, Drawer};
use crate::graph::Call;
use crate::input::{ALL, WHOLES};

type Drawn = Option<Call>;

/// A node, possibly empty, with at least `least` dims.
fn ranked(d: &mut Drawer, dtype: DType, least: usize) -> Option<usize> {
    let rank = d.between(least, 5.max(least));
    let dims = d.dims(rank);
    d.some(dtype, |dims| dims.len() >= least, dims)
}

/// A nonempty node with at least `least` dims.
fn full(d: &mut Drawer, dtype: DType, least: usize) -> Option<usize> {
    let rank = d.between(least, 5.max(least));
    let dims: Vec<usize> = d.dims(rank).iter().map(|&n| n.max(1)).collect();
    d.some(
        dtype,
        |dims| dims.len() >= least && !dims.contains(&0),
        dims,
    )
}

fn axis(d: &mut Drawer, node: usize) -> usize {
    let rank = d.dims_of(node).len();
    d.between(0, rank.max(1) - 1)
}

/// One operand of any shape.
pub fn unary(d: &mut Drawer, dtype: DType) -> Drawn {
    Some(call(vec![d.any(dtype)?], vec![]))
}

pub fn power(d: &mut Drawer, dtype: DType) -> Drawn {
    let e = d.one_of(&[0., 1., 2., 3., 0.5, -1., -2., -0.5, 0.25, 1.5]);
    Some(Call {
        f: vec![e],
        ..unary(d, dtype)?
    })
}

/// Scalars that every dtype has, so that they are the same in f64.
pub fn scalars(d: &mut Drawer, dtype: DType) -> Drawn {
    let f = match dtype.is_float() {
        true => vec![
            d.one_of(&[1., -1., 0.5, 1.5, 2., -0.25]),
            d.one_of(&[0., 1., -0.5, 0.25]),
        ],
        false => vec![d.one_of(&[0., 1., 2., 3.]), d.one_of(&[0., 1., 7.])],
    };
    Some(Call {
        f,
        ..unary(d, dtype)?
    })
}

pub fn clamp(d: &mut Drawer, dtype: DType) -> Drawn {
    let f = match dtype.is_float() {
        true => vec![d.one_of(&[-1.5, -0.5, 0.]), d.one_of(&[0.5, 2., 14.])],
        false => vec![d.one_of(&[0., 1., 3.]), d.one_of(&[4., 7., 100.])],
    };
    Some(Call {
        f,
        ..unary(d, dtype)?
    })
}

pub fn cast(d: &mut Drawer, dtype: DType) -> Drawn {
    let to = d.one_of(&ALL);
    Some(Call {
        to,
        ..unary(d, dtype)?
    })
}

pub fn binary(d: &mut Drawer, dtype: DType) -> Drawn {
    let a = d.any(dtype)?;
    let dims = d.dims_of(a);
    let b = d.of(dtype, &dims)?;
    Some(call(vec![a, b], vec![]))
}

/// Dims that broadcast with those of a node.
pub fn broadcast(d: &mut Drawer, dtype: DType) -> Drawn {
    let a = d.any(dtype)?;
    let mut dims = d.dims_of(a);
    let skip = d.between(0, dims.len());
    dims.drain(..skip);
    for n in &mut dims {
        if d.chance(40) {
            *n = 1;
        }
    }
    let b = d.of(dtype, &dims)?;
    let args = if d.chance(50) { vec![a, b] } else { vec![b, a] };
    Some(call(args, vec![]))
}

pub fn where_cond(d: &mut Drawer, dtype: DType) -> Drawn {
    let a = d.any(dtype)?;
    let dims = d.dims_of(a);
    let kind = d.one_of(&WHOLES);
    let (cond, b) = (d.of(kind, &dims)?, d.of(dtype, &dims)?);
    Some(call(vec![cond, a, b], vec![]))
}

pub fn dim(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    Some(call(vec![x], vec![axis(d, x)]))
}

pub fn dims(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = ranked(d, dtype, 1)?;
    let rank = d.dims_of(x).len();
    let mut set: Vec<usize> = (0..rank).filter(|_| d.chance(50)).collect();
    if set.is_empty() {
        set.push(axis(d, x));
    }
    Some(call(vec![x], set))
}

pub fn nonempty(d: &mut Drawer, dtype: DType) -> Drawn {
    Some(call(vec![full(d, dtype, 1)?], vec![]))
}

/// A random factorisation of the element count.
pub fn reshape(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.any(dtype)?;
    let mut rest: usize = d.dims_of(x).iter().product();
    let mut dims = Vec::new();
    for _ in 0..d.between(0, 3) {
        let factors: Vec<usize> = (1..=rest.min(64))
            .filter(|f| rest.is_multiple_of(*f))
            .collect();
        if factors.is_empty() {
            break;
        }
        let f = d.one_of(&factors);
        dims.push(f);
        rest /= f;
    }
    dims.push(rest);
    Some(call(vec![x], dims))
}

pub fn narrow(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = ranked(d, dtype, 1)?;
    let at = axis(d, x);
    let size = d.dims_of(x)[at];
    let start = d.between(0, size.max(1) - 1).min(size);
    let len = match d.chance(3) {
        true => 0,
        false => d.between(1.min(size - start), size - start),
    };
    Some(call(vec![x], vec![at, start, len]))
}

pub fn transpose(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = ranked(d, dtype, 2)?;
    Some(call(vec![x], vec![axis(d, x), axis(d, x)]))
}

pub fn permute(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = ranked(d, dtype, 2)?;
    let mut order: Vec<usize> = (0..d.dims_of(x).len()).collect();
    for i in (1..order.len()).rev() {
        let j = d.between(0, i);
        order.swap(i, j);
    }
    Some(call(vec![x], order))
}

pub fn broadcast_as(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.any(dtype)?;
    let mut dims = d.dims_of(x);
    for n in dims.iter_mut().filter(|n| **n == 1) {
        *n = d.between(1, 5);
    }
    if dims.len() < 5 {
        dims.insert(0, d.between(1, 3));
    }
    Some(call(vec![x], dims))
}

pub fn unsqueeze(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.some(dtype, |dims| dims.len() < 5, vec![3, 4])?;
    let rank = d.dims_of(x).len();
    Some(call(vec![x], vec![d.between(0, rank)]))
}

pub fn squeeze(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.some(dtype, |dims| dims.contains(&1), vec![3, 1, 4])?;
    let at = d.dims_of(x).iter().position(|&n| n == 1)?;
    Some(call(vec![x], vec![at]))
}

pub fn repeat(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.any(dtype)?;
    let times = d.dims_of(x).iter().map(|_| d.between(1, 2)).collect();
    Some(call(vec![x], times))
}

pub fn roll(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    Some(call(vec![x], vec![axis(d, x), d.between(0, 9)]))
}

pub fn flip(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    let rank = d.dims_of(x).len();
    let dims = (0..rank).filter(|_| d.chance(50)).collect();
    Some(call(vec![x], dims))
}

pub fn unfold(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = d.some(dtype, |dims| dims.len() < 5 && !dims.is_empty(), vec![3, 9])?;
    let at = axis(d, x);
    let n = d.dims_of(x)[at];
    if n == 0 {
        return None;
    }
    let size = d.between(1, n.min(5));
    Some(call(vec![x], vec![at, size, d.between(1, 3)]))
}

pub fn cat(d: &mut Drawer, dtype: DType) -> Drawn {
    let first = ranked(d, dtype, 1)?;
    let at = axis(d, first);
    let mut args = vec![first];
    for _ in 0..d.between(1, 3) {
        let mut dims = d.dims_of(first);
        dims[at] = d.between(1, 5);
        args.push(d.of(dtype, &dims)?);
    }
    Some(call(args, vec![at]))
}

pub fn stack(d: &mut Drawer, dtype: DType) -> Drawn {
    let first = d.some(dtype, |dims| dims.len() < 5, vec![2, 7])?;
    let dims = d.dims_of(first);
    let mut args = vec![first];
    for _ in 0..d.between(1, 2) {
        args.push(d.of(dtype, &dims)?);
    }
    Some(call(args, vec![d.between(0, dims.len())]))
}

pub fn pad(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    Some(call(
        vec![x],
        vec![axis(d, x), d.between(0, 3), d.between(0, 3)],
    ))
}
