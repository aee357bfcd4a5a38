//! Matmul, convolution, pooling and upsampling.

use candle_core::DType;

use super::Drawn;
use crate::draw::{call, Drawer};

const EDGES: [usize; 12] = [1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65];

/// An m x k matrix or a batch of them (the CPU supports at most two batch dims), and n.
fn left(d: &mut Drawer, dtype: DType) -> Option<(usize, Vec<usize>, usize)> {
    let mut dims: Vec<usize> = (0..d.between(0, 2)).map(|_| d.between(1, 3)).collect();
    dims.extend([d.one_of(&EDGES), d.one_of(&EDGES)]);
    let a = d.some(dtype, |s| (2..=4).contains(&s.len()), dims)?;
    Some((a, d.dims_of(a), d.one_of(&EDGES)))
}

pub fn matmul(d: &mut Drawer, dtype: DType) -> Drawn {
    let (a, mut dims, n) = left(d, dtype)?;
    let rank = dims.len();
    dims[rank - 2] = dims[rank - 1];
    dims[rank - 1] = n;
    Some(call(vec![a, d.of(dtype, &dims)?], vec![]))
}

pub fn matmul_t(d: &mut Drawer, dtype: DType) -> Drawn {
    let (a, mut dims, n) = left(d, dtype)?;
    let rank = dims.len();
    dims[rank - 2] = n;
    Some(call(vec![a, d.of(dtype, &dims)?], vec![]))
}

/// Batch dims of 1, or none, on one side.
pub fn broadcasted(d: &mut Drawer, dtype: DType) -> Drawn {
    let (a, dims, n) = left(d, dtype)?;
    let (batch, matrix) = dims.split_at(dims.len() - 2);
    let skip = d.between(0, batch.len());
    let mut dims: Vec<usize> = batch[skip..].to_vec();
    for b in &mut dims {
        if d.chance(50) {
            *b = 1;
        }
    }
    dims.extend([matrix[1], n]);
    Some(call(vec![a, d.of(dtype, &dims)?], vec![]))
}

/// Batch, channels and `rank` lengths: an existing image or a new one.
fn image(d: &mut Drawer, dtype: DType, rank: usize) -> Option<(usize, Vec<usize>)> {
    let mut dims = vec![d.between(1, 3), d.between(1, 6)];
    dims.extend((0..rank).map(|_| d.between(1, 12)));
    let x = d.some(dtype, |s| s.len() == rank + 2 && !s.contains(&0), dims)?;
    Some((x, d.dims_of(x)))
}

struct Window {
    taps: usize,
    padding: usize,
    stride: usize,
    dilation: usize,
}

/// A window that fits in the shortest length.
fn window(d: &mut Drawer, lengths: &[usize]) -> Window {
    let (padding, dilation) = (d.between(0, 2), d.one_of(&[1, 1, 2]));
    let shortest = lengths.iter().min().copied().unwrap_or(1) + 2 * padding;
    let most = (shortest - 1) / dilation + 1;
    let (taps, stride) = (d.between(1, most.min(4)), d.between(1, 3));
    Window {
        taps,
        padding,
        stride,
        dilation,
    }
}

fn convolution(d: &mut Drawer, dtype: DType, rank: usize) -> Drawn {
    let (x, dims) = image(d, dtype, rank)?;
    let w = window(d, &dims[2..]);
    let c = dims[1];
    let divisors: Vec<usize> = (1..=c).filter(|g| c % g == 0).collect();
    let groups = d.one_of(&divisors);
    let mut weights = vec![groups * d.between(1, 3), c / groups];
    weights.extend(vec![w.taps; rank]);
    let weights = d.of(dtype, &weights)?;
    Some(call(
        vec![x, weights],
        vec![w.padding, w.stride, w.dilation, groups],
    ))
}

pub fn conv1d(d: &mut Drawer, dtype: DType) -> Drawn {
    convolution(d, dtype, 1)
}

pub fn conv2d(d: &mut Drawer, dtype: DType) -> Drawn {
    convolution(d, dtype, 2)
}

fn transposed(d: &mut Drawer, dtype: DType, rank: usize) -> Drawn {
    let (x, dims) = image(d, dtype, rank)?;
    let (taps, stride, dilation) = (d.between(1, 4), d.between(1, 3), d.one_of(&[1, 1, 2]));
    let reach = (taps - 1) * dilation;
    // At least one element remains.
    let (padding, more) = (d.between(0, reach / 2), d.between(0, stride - 1));
    let mut weights = vec![dims[1], d.between(1, 4)];
    weights.extend(vec![taps; rank]);
    let weights = d.of(dtype, &weights)?;
    Some(call(
        vec![x, weights],
        vec![padding, more, stride, dilation],
    ))
}

pub fn transposed1d(d: &mut Drawer, dtype: DType) -> Drawn {
    transposed(d, dtype, 1)
}

pub fn transposed2d(d: &mut Drawer, dtype: DType) -> Drawn {
    transposed(d, dtype, 2)
}

pub fn pool(d: &mut Drawer, dtype: DType) -> Drawn {
    let (x, dims) = image(d, dtype, 2)?;
    let taps = [d.between(1, dims[2].min(4)), d.between(1, dims[3].min(4))];
    Some(call(
        vec![x],
        vec![taps[0], taps[1], d.between(1, 3), d.between(1, 3)],
    ))
}

pub fn upsample1d(d: &mut Drawer, dtype: DType) -> Drawn {
    let (x, _) = image(d, dtype, 1)?;
    Some(call(vec![x], vec![d.between(1, 20)]))
}

pub fn upsample2d(d: &mut Drawer, dtype: DType) -> Drawn {
    let (x, _) = image(d, dtype, 2)?;
    Some(call(vec![x], vec![d.between(1, 20), d.between(1, 20)]))
}
