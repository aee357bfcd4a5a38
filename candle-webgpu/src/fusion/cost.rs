//! Measures the CPU time of recording and rewriting.

use std::time::{Duration, Instant};

use crate::dtype::DType;
use crate::fusion::graph::Graph;
use crate::fusion::testing::{Bench, T};
use crate::recorder::batch::Batch;
use crate::util::lock;

/// The CPU time per op of a transformer layer: `cargo test -p candle-webgpu --lib cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost() {
    let b = Bench::new("");
    let dtype = DType::F16;
    let x = b.of(dtype, &[1, 256]);
    let alpha = b.of(dtype, &[256]);
    let angles = [0; 2].map(|_| b.of(dtype, &[1, 16]));
    let w: Vec<T> = (0..7).map(|_| b.of(dtype, &[256, 256])).collect();
    let [past_k, past_v] = [0; 2].map(|_| b.of(dtype, &[8, 63, 32]));
    b.device.synchronize().expect("no error");
    let norm = |x: &T| b.rms_norm(x, &alpha);
    let heads = |x: &T| x.shown(&[1, 8, 1, 32], &[256, 32, 32, 1], 0);
    let cat = |past: &T, x: &T| {
        let y = b.cat(&[past, &x.shown(&[8, 1, 32], &[32, 32, 1], 0)]);
        T::new(y.value, dtype, &[1, 8, 64, 32])
    };
    let layer = || {
        let y = norm(&x);
        let [q, k, v] = [0, 1, 2].map(|i| heads(&b.linear(&y, &w[i])));
        let (q, k) = (b.turned(&q, &angles), b.turned(&k, &angles));
        let (k, v) = (cat(&past_k, &k), cat(&past_v, &v));
        let [q, k, v] = [&q, &k, &v].map(|x| b.cast(x, DType::F32));
        let kt = k.shown(&[1, 8, 32, 64], &[16384, 2048, 1, 32], 0);
        let p = b.softmax(&b.scaled(&b.matmul(&q, &kt), 0.2));
        let y = b.cast(&b.matmul(&p, &v), dtype);
        let y = y.shown(&[1, 256], &[256, 1], 0);
        let x = b.binary("badd", &b.linear(&y, &w[3]), &x);
        let y = norm(&x);
        let gate = b.unary("usilu", &b.linear(&y, &w[4]));
        let y = b.binary("bmul", &gate, &b.linear(&y, &w[5]));
        b.binary("badd", &b.linear(&y, &w[6]), &x)
    };
    let (mut recording, mut rewriting) = (Duration::MAX, Duration::MAX);
    let (mut before, mut after) = (0, 0);
    for _ in 0..500 {
        let start = Instant::now();
        let _x = layer();
        let recorded = start.elapsed();
        let Batch { ops, number, .. } = lock(&b.device.pending).batch(&b.device.pool, None);
        if ops.len() < before {
            continue; // The recorder handed over a part of the layer.
        }
        if ops.len() > before {
            (recording, rewriting) = (Duration::MAX, Duration::MAX);
        }
        before = ops.len();
        recording = recording.min(recorded);
        let start = Instant::now();
        let due = ops.len();
        let mut graph = Graph::new(ops, due, number);
        b.device.executor().rules.apply(&b.device, &mut graph);
        let [ops, ..] = graph.into_ops();
        rewriting = rewriting.min(start.elapsed());
        after = ops.len();
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / before as f64;
    println!(
        "{before} ops of a layer become {after}; us per op: recording {:.2}, rewriting {:.2}",
        each(recording),
        each(rewriting)
    );
}
