//! candle-nn's fused ops.

use candle_core::DType;

use super::{full, Drawn};
use crate::draw::{call, Drawer};
use crate::graph::Call;

/// Rows and a weight for each column.
pub fn rms_norm(d: &mut Drawer, dtype: DType) -> Drawn {
    let x = full(d, dtype, 1)?;
    let n = *d.dims_of(x).last()?;
    let alpha = d.of(dtype, &[n])?;
    Some(Call {
        f: vec![1e-5],
        ..call(vec![x, alpha], vec![])
    })
}

pub fn layer_norm(d: &mut Drawer, dtype: DType) -> Drawn {
    let mut drawn = rms_norm(d, dtype)?;
    let dims = d.dims_of(drawn.args[1]);
    drawn.args.push(d.of(dtype, &dims)?);
    Some(drawn)
}

fn angles(d: &mut Drawer, dtype: DType, x: usize, seq: usize, dim: usize) -> Drawn {
    let rows = seq + d.between(0, 2);
    let (cos, sin) = (
        d.of(dtype, &[rows, dim / 2])?,
        d.of(dtype, &[rows, dim / 2])?,
    );
    Some(call(vec![x, cos, sin], vec![]))
}

fn heads(d: &mut Drawer, dtype: DType) -> Option<(usize, Vec<usize>)> {
    let dims = vec![
        d.between(1, 2),
        d.between(1, 3),
        d.between(1, 5),
        2 * d.between(1, 8),
    ];
    let x = d.some(
        dtype,
        |s| s.len() == 4 && s[3] % 2 == 0 && !s.contains(&0),
        dims,
    )?;
    Some((x, d.dims_of(x)))
}

pub fn rope(d: &mut Drawer, dtype: DType) -> Drawn {
    let (x, dims) = heads(d, dtype)?;
    angles(d, dtype, x, dims[2], dims[3])
}

pub fn rope_thd(d: &mut Drawer, dtype: DType) -> Drawn {
    let (x, dims) = heads(d, dtype)?;
    angles(d, dtype, x, dims[1], dims[3])
}
