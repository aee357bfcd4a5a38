//! Ops with tensors of ids, and in-place ops.

use candle_core::DType;

use super::{axis, full, Drawn};
use crate::draw::{call, Drawer};

pub fn select(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    let at = axis(d, x);
    let (n, size) = (d.between(0, 9), d.dims_of(x)[at]);
    let ids = d.ids(&[n], size)?;
    Some(call(vec![x, ids], vec![at]))
}

pub fn gather(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    let (at, mut dims) = (axis(d, x), d.dims_of(x));
    let size = dims[at];
    dims[at] = d.between(1, 9);
    let ids = d.ids(&dims, size)?;
    Some(call(vec![x, ids], vec![at]))
}

/// Ids and a source for writes into `x`.
fn writes(d: &mut Drawer, x: usize) -> Drawn {
    let (at, mut dims) = (axis(d, x), d.dims_of(x));
    let size = dims[at];
    dims[at] = d.between(1, 6);
    let ids = d.ids(&dims, size)?;
    let src = d.of(d.dtype_of(x), &dims)?;
    Some(call(vec![x, ids, src], vec![at]))
}

pub fn scatter(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    writes(d, x)
}

pub fn index_add(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    let (at, mut dims) = (axis(d, x), d.dims_of(x));
    let (n, size) = (d.between(1, 6), dims[at]);
    dims[at] = n;
    let ids = d.ids(&[n], size)?;
    let src = d.of(dtype, &dims)?;
    Some(call(vec![x, ids, src], vec![at]))
}

pub fn slice(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    part(d, x)
}

/// A source that fits in `x` along a dim.
fn part(d: &mut Drawer, x: usize) -> Drawn {
    let (at, mut dims) = (axis(d, x), d.dims_of(x));
    let start = d.between(0, dims[at] - 1);
    dims[at] = d.between(1, dims[at] - start);
    let src = d.of(d.dtype_of(x), &dims)?;
    Some(call(vec![x, src], vec![at, start]))
}

/// A nonempty node with its own storage.
fn mine(d: &mut Drawer, dtype: DType) -> Option<usize> {
    full(d, dtype, 1)?;
    d.owned(dtype, |dims| !dims.is_empty() && !dims.contains(&0))
}

/// No operand may share the storage that is written.
fn apart(d: &Drawer, drawn: Drawn) -> Drawn {
    drawn.filter(|c| c.args[1..].iter().all(|&n| !d.shares(n, c.args[0])))
}

pub fn own(d: &mut Drawer, dtype: DType) -> Drawn {
    Some(call(vec![mine(d, dtype)?], vec![]))
}

pub fn own_part(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = mine(d, dtype)?;
    let at = axis(d, x);
    let size = d.dims_of(x)[at];
    let start = d.between(0, size - 1);
    Some(call(vec![x], vec![at, start, d.between(1, size - start)]))
}

pub fn own_slice(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = mine(d, dtype)?;
    let drawn = part(d, x);
    apart(d, drawn)
}

pub fn own_scatter(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = mine(d, dtype)?;
    let drawn = writes(d, x);
    apart(d, drawn)
}
