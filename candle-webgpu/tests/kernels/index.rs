//! Gathering and scattering against plain loops: dtypes, ids of every dtype, layouts.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Device, Error, View};

use crate::table::{device, indices, read, whole, Table, ALL};

const IDS: [DType; 3] = [DType::U8, DType::U32, DType::I64];

fn none(dtype: DType) -> f64 {
    match dtype {
        DType::U8 => 255.0,
        DType::U32 => f64::from(u32::MAX),
        _ => i64::MAX as f64,
    }
}

/// Ids below `size`, and some that mean "no row".
fn ids(d: &Device, dtype: DType, dims: &[usize], size: usize) -> Table {
    let n = dims.iter().product();
    let mut data = whole(DType::U32, 11, n, size as u64 - 1);
    for v in data.iter_mut().skip(2).step_by(5) {
        *v = none(dtype);
    }
    Table::new(d, dtype, dims, &data)
}

fn get(src: &Table, ids: &Table, id: f64, mut index: Vec<usize>, dim: usize) -> f64 {
    if id == none(ids.dtype) {
        return 0.0;
    }
    index[dim] = id as usize;
    src.at(&index)
}

#[test]
fn index_select() {
    let d = device();
    for dtype in ALL {
        for kind in IDS {
            for (dims, dim) in [
                (&[10, 8][..], 0),
                (&[10, 7], 0),
                (&[3, 10, 5], 1),
                (&[3, 10, 12], 1),
                (&[4, 10], 1),
                (&[2, 3, 10, 4], 2),
            ] {
                let n = ids(&d, kind, &[7], 10);
                for src in [
                    Table::whole(&d, dtype, 3, dims, 9),
                    Table::whole(&d, dtype, 4, &[dims, &[3]].concat(), 9).narrowed(
                        dims.len(),
                        1,
                        1,
                    ),
                    Table::whole(&d, dtype, 5, &[&[2], dims].concat(), 9).narrowed(0, 1, 1),
                ] {
                    let dim = if src.dims[0] == 1 { dim + 1 } else { dim };
                    let y = d.index_select(src.view(), n.view(), dim).unwrap();
                    let mut out = src.dims.clone();
                    out[dim] = 7;
                    let want: Vec<f64> = indices(&out)
                        .into_iter()
                        .map(|i| get(&src, &n, n.at(&[i[dim]]), i, dim))
                        .collect();
                    assert_eq!(
                        read(&d, dtype, &y),
                        want,
                        "{dtype} {kind} {:?} {dim}",
                        src.dims
                    );
                }
            }
        }
    }
}

#[test]
fn gather() {
    let d = device();
    for dtype in ALL {
        for kind in IDS {
            for dim in 0..3 {
                let mut dims = [4, 5, 6];
                let size = dims[dim];
                dims[dim] = 3;
                let n = ids(&d, kind, &dims, size);
                for src in [
                    Table::whole(&d, dtype, 3, &[4, 5, 6], 9),
                    Table::whole(&d, dtype, 4, &[6, 5, 4], 9).transposed(0, 2),
                ] {
                    let y = d.gather(src.view(), n.view(), dim).unwrap();
                    let want: Vec<f64> = indices(&dims)
                        .into_iter()
                        .map(|i| get(&src, &n, n.at(&i), i, dim))
                        .collect();
                    assert_eq!(read(&d, dtype, &y), want, "{dtype} {kind} {dim}");
                }
            }
        }
    }
}

/// Applies `put(old, new)` to a copy of `dst` in the order of the CPU.
fn scattered(dst: &Table, ids: &Table, src: &Table, dim: usize, add: bool) -> Vec<f64> {
    let all = indices(&dst.dims);
    let mut out: Vec<f64> = all.iter().map(|i| dst.at(i)).collect();
    for mut i in indices(&src.dims) {
        let (id, v) = (ids.at(&i), src.at(&i));
        if id != none(ids.dtype) {
            i[dim] = id as usize;
            let at = i.iter().zip(&dst.dims).fold(0, |at, (i, d)| at * d + i);
            out[at] = if add { out[at] + v } else { v };
        }
    }
    out
}

#[test]
fn scatter() {
    let d = device();
    for dtype in ALL {
        for kind in IDS {
            for dim in 0..3 {
                for add in [false, true] {
                    let mut dims = [4, 5, 6];
                    let size = dims[dim];
                    dims[dim] = 9;
                    let n = ids(&d, kind, &dims, size);
                    let src = Table::whole(&d, dtype, 3, &dims, 9);
                    let dst = Table::whole(&d, dtype, 4, &[4, 5, 6], 9);
                    let want = scattered(&dst, &n, &src, dim, add);
                    if add {
                        d.scatter_add(dst.view(), n.view(), src.view(), dim)
                            .unwrap();
                    } else {
                        d.scatter_set(dst.view(), n.view(), src.view(), dim)
                            .unwrap();
                    }
                    assert_eq!(
                        read(&d, dtype, &dst.value),
                        want,
                        "{dtype} {kind} {dim} {add}"
                    );
                }
            }
        }
    }
}

#[test]
fn index_add() {
    let d = device();
    for dtype in ALL {
        for kind in IDS {
            for (dims, dim) in [([11, 6], 0), ([6, 11], 1)] {
                let mut wide = dims;
                wide[dim] = 5;
                let n = ids(&d, kind, &[11], 5);
                let src = Table::whole(&d, dtype, 3, &dims, 9);
                let dst = Table::whole(&d, dtype, 4, &wide, 9).transposed(0, 1);
                let (dim, src) = (1 - dim, src.transposed(0, 1));
                let all = Table {
                    dims: src.dims.clone(),
                    strides: (0..2).map(|k| usize::from(k == dim)).collect(),
                    host: n.host.clone(),
                    value: n.value.clone(),
                    ..n
                };
                let want = scattered(&dst, &all, &src, dim, true);
                let y = d.index_add(dst.view(), n.view(), src.view(), dim).unwrap();
                assert_eq!(read(&d, dtype, &y), want, "{dtype} {kind} {dim}");
            }
        }
    }
}

/// Found by fuzzing: no kernel ran, and the result was whatever its memory held.
#[test]
fn ids_of_a_dim_without_indices_are_out_of_range() {
    // The next readback of the device reports it, whichever that is.
    let d = Device::separate(0).unwrap();
    let empty = Table::new(&d, DType::F32, &[3, 0], &[]);
    let src = Table::whole(&d, DType::F32, 1, &[3, 4], 9);
    let row = Table::new(&d, DType::U32, &[4], &[0.0; 4]);
    let all = Table::new(&d, DType::U32, &[3, 4], &[0.0; 12]);
    let out = |read: candle_webgpu::Result<()>| {
        assert!(
            matches!(read, Err(Error::IndexOutOfRange { size: 0, .. })),
            "{read:?}"
        );
    };
    let y = d.index_select(empty.view(), row.view(), 1).unwrap();
    out(d.read(&y, 0, 48).map(|_| ()));
    let y = d.gather(empty.view(), all.view(), 1).unwrap();
    out(d.read(&y, 0, 48).map(|_| ()));
    d.scatter_set(empty.view(), all.view(), src.view(), 1)
        .unwrap();
    out(d.synchronize());
    d.index_add(empty.view(), row.view(), src.view(), 1)
        .unwrap();
    out(d.synchronize());
    let nobody = Table::new(&d, DType::U32, &[4], &[f64::from(u32::MAX); 4]);
    let y = d.index_select(empty.view(), nobody.view(), 1).unwrap();
    assert_eq!(read(&d, DType::F32, &y), [0.0; 12]);
}

/// Found by fuzzing: it was refused.
#[test]
fn the_stride_of_a_single_index_is_anything() {
    let d = device();
    let x = Table::whole(&d, DType::F32, 1, &[4], 9);
    let ids = Table::new(&d, DType::U32, &[1], &[0.0]);
    let layout = (&[1, 4][..], &[usize::MAX, 1][..], 0);
    let wide =
        |value, dtype, dims| View::new("test", value, dtype, (dims, &[usize::MAX], 0)).unwrap();
    let src = View::new("test", &x.value, x.dtype, layout).unwrap();
    let id = wide(&ids.value, ids.dtype, &[1]);
    let y = d.index_select(src, id, 0).unwrap();
    assert_eq!(read(&d, DType::F32, &y), x.host);
    let sum = Table::new(&d, DType::F32, &[1], &[5.0]);
    d.scatter_add(
        wide(&sum.value, sum.dtype, &[1]),
        id,
        wide(&x.value, x.dtype, &[1]),
        0,
    )
    .unwrap();
    assert_eq!(read(&d, DType::F32, &sum.value), [5.0 + x.host[0]]);
}
