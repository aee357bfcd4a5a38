//! Ops whose results nobody reads.

use crate::bench::takes;

#[test]
fn unread_results() {
    takes((1, 4), "unread results", |b| {
        let x = b.floats(&[64]);
        let y = b.unary("uexp", &x);
        b.unary("uneg", &b.softmax(&b.unary("uexp", &y)));
        vec![y]
    });
}

#[test]
fn writes_to_held_values_stay() {
    takes((1, 1), "a held value", |b| {
        let (x, y) = (b.floats(&[64]), b.floats(&[64]));
        b.copy(&x, &y);
        vec![y]
    });
}
