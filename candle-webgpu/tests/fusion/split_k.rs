//! Matmuls with cooperative matrices whose tiles do not fill the adapter.

use candle_webgpu::{DType, Quant};

use crate::bench::{cooperative, near, Bench, T};

const M: usize = 200;
const N: usize = 264;
const K: usize = 1024;

/// Runs a matmul in parts, and asserts how many dispatches other rules save. Without cooperative matrices, nothing is divided. Results may
/// differ by `bound`: a few units in the last place of the largest, since parts are added up in another order before they are rounded.
fn splits(bound: f32, saved: u64, run: impl Fn(&Bench) -> T) {
    let (with, without) = near(bound, |b| vec![run(b)]);
    assert_eq!(with + saved, without + u64::from(cooperative()));
}

fn product(b: &Bench, [m, n]: [usize; 2]) -> T {
    b.linear(&b.of(DType::F16, &[m, K]), &b.of(DType::F16, &[n, K]))
}

#[test]
fn of_f16() {
    splits(0.25, 0, |b| product(b, [M, N]));
    // Rows of y that are not whole quads, and a matrix whose lines are across k.
    splits(0.25, 0, |b| product(b, [M, N - 3]));
    splits(0.25, 0, |b| {
        b.product(&b.of(DType::F16, &[M, K]), &b.of(DType::F16, &[K, N]))
    });
}

#[test]
fn of_a_last_wave() {
    // 300 tiles of 128 x 128 or 1,200 of 64 x 64, too many for software adapters.
    if !cooperative() {
        return;
    }
    splits(0.25, 0, |b| product(b, [512, 75 * 128]));
}

#[test]
fn of_other_dtypes() {
    splits(2.0, 0, |b| {
        b.linear(&b.of(DType::Bf16, &[M, K]), &b.of(DType::Bf16, &[N, K]))
    });
    for m in [M, 400] {
        splits(0.01, 0, |b| {
            let w = b.blocks(Quant::Q4_0, N, K);
            b.by_blocks(&b.floats(&[m, K]), Quant::Q4_0, &w)
        });
    }
}

#[test]
fn with_an_epilogue() {
    // The second kernel of other matmuls takes no epilogue.
    splits(0.25, cooperative().into(), |b| {
        let bias = b.of(DType::F16, &[N]).shown(&[M, N], &[0, 1], 0);
        b.binary("badd", &product(b, [M, N]), &bias)
    });
}

#[test]
fn of_two_results() {
    // Three matmuls become two in parts.
    let (with, without) = near(0.25, |b| {
        let x = b.of(DType::F16, &[M, K]);
        let all = [2 * N, N, N].map(|n| b.of(DType::F16, &[n, K]));
        all.iter().map(|w| b.linear(&x, w)).collect()
    });
    assert_eq!(with, without + u64::from(cooperative()));
}

/// silu(gate) up, where the product of the largest results is rounded.
#[test]
fn of_a_pair() {
    // Without cooperative matrices, only the elementwise ops are fused.
    let saved = |pair: u64| if cooperative() { pair } else { 1 };
    splits(32.0, saved(3), |b| {
        let x = b.of(DType::F16, &[M, K]);
        let [gate, up] = [(); 2].map(|()| b.of(DType::F16, &[N, K]));
        let gate = b.unary("usilu", &b.linear(&x, &gate));
        b.binary("bmul", &gate, &b.linear(&x, &up))
    });
    // Also the second conversion of the rows.
    splits(1.0, saved(4), |b| {
        let x = b.floats(&[400, K]);
        let [gate, up] = [N, N].map(|n| b.blocks(Quant::Q4_0, n, K));
        let gate = b.unary("usilu", &b.by_blocks(&x, Quant::Q4_0, &gate));
        b.binary("bmul", &gate, &b.by_blocks(&x, Quant::Q4_0, &up))
    });
}

#[test]
fn short_sums_stay() {
    let counts = near(0.0, |b| {
        let (x, w) = (b.of(DType::F16, &[M, 256]), b.of(DType::F16, &[N, 256]));
        vec![b.linear(&x, &w)]
    });
    assert_eq!(counts.0, counts.1);
}
