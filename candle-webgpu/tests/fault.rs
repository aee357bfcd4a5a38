//! Ids out of range. Runs in its own process, since the device reports a fault to whichever readback is next.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod table;

use candle_webgpu::{DType, Error};
use table::{device, Table};

#[test]
fn ids_out_of_range_are_errors() {
    let d = device();
    let src = Table::whole(&d, DType::F32, 1, &[4, 8], 9);
    let odd = Table::whole(&d, DType::F32, 1, &[4, 7], 9);
    for (kind, bad) in [
        (DType::U8, 4.0),
        (DType::U32, 1e9),
        (DType::I64, -1.0),
        (DType::I64, 8e9),
    ] {
        let n = Table::new(&d, kind, &[2], &[1.0, bad]);
        let each = n.view();
        for (table, row) in [(&src, 8), (&odd, 7)] {
            let y = d.index_select(table.view(), each, 0).unwrap();
            let error = d.read(&y, 0, y.bytes()).unwrap_err();
            let Error::IndexOutOfRange { op, index, size } = error else {
                panic!("{error}");
            };
            assert_eq!((op, index, size), ("index_select", bad as i64, 4));
            let y = d.index_add(table.view(), each, table.view(), 0);
            assert!(matches!(y, Err(Error::Invalid { .. })), "{row}");
        }
        let dst = Table::whole(&d, DType::F32, 1, &[4], 9);
        let from = Table::whole(&d, DType::F32, 2, &[2], 9);
        d.scatter_set(dst.view(), each, from.view(), 0).unwrap();
        let error = d.synchronize().unwrap_err();
        assert!(
            matches!(
                error,
                Error::IndexOutOfRange {
                    op: "scatter_set",
                    ..
                }
            ),
            "{error}"
        );
        let y = d.read(&dst.value, 0, 16).unwrap();
        let y = table::decode(DType::F32, &y);
        assert_eq!(y[1], from.host[0]);
        assert_eq!([y[0], y[2], y[3]], [dst.host[0], dst.host[2], dst.host[3]]);
    }
}
