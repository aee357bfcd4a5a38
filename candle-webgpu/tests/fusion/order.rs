//! Ops, uploads and readbacks keep their order, whichever threads run them.

use candle_webgpu::DType;

use crate::bench::{Bench, T};

fn read(b: &Bench, x: &T) -> Vec<f32> {
    let bytes = b.device.read(&x.value, 0, x.value.bytes());
    bytemuck::pod_collect_to_vec(&bytes.expect("bytes"))
}

#[test]
fn batches_keep_their_order() {
    let b = Bench::new("-all");
    let mut x = b.floats(&[64]);
    let first = read(&b, &x);
    for _ in 0..2000 {
        x = b.unary("uneg", &x);
    }
    assert_eq!(read(&b, &x), first);
    assert!(b.device.stats().dispatches >= 2000);
}

#[test]
fn uploads_wait_for_the_encoder() {
    let b = Bench::new("-all");
    let mut sums = Vec::new();
    for i in 0..300 {
        let x = b.device.upload(bytemuck::cast_slice(&[i as f32; 64]));
        let x = T::new(x.expect("upload"), DType::F32, &[64]);
        sums.push(b.unary("uneg", &b.unary("uneg", &x)));
    }
    for (i, sum) in sums.iter().enumerate() {
        assert_eq!(read(&b, sum), [i as f32; 64]);
    }
}

/// A value written by an op in progress is initialised for later ops, even while it has no memory.
#[test]
fn values_of_ops_in_progress_are_initialised() {
    let b = Bench::new("");
    let (x, y) = (b.floats(&[64]), b.floats(&[128]));
    b.device.synchronize().expect("no error");
    let half = |at| y.shown(&[64], &[1], at);
    for _ in 0..50 {
        b.device.copy_into(x.v(), half(0).v()).expect("copy");
        let others: Vec<T> = (0..100).map(|_| b.unary("uexp", &x)).collect();
        drop(others);
        b.device
            .copy_into(b.unary("uneg", &x).v(), half(64).v())
            .expect("copy");
    }
    let (x, y) = (read(&b, &x), read(&b, &y));
    assert_eq!(x, y[..64]);
    assert!(x.iter().zip(&y[64..]).all(|(x, y)| -x == *y));
}

/// Which rules fire must not depend on when tensors are dropped relative to the rewriter thread.
#[test]
fn rules_do_not_depend_on_timing() {
    let b = Bench::new("");
    let x = b.floats(&[64]);
    b.device.synchronize().expect("no error");
    let run = |pause: usize| {
        let before = b.device.stats().dispatches;
        let (mut y, mut alive) = (x.clone(), std::collections::VecDeque::new());
        for i in 0..500 {
            let op = ["uneg", "uabs", "urelu", "usqr", "usin"][i % 5];
            y = b.unary(op, &y);
            alive.push_back(y.clone());
            while alive.len() > [1, 40, 3, 0, 9][i / 30 % 5] {
                alive.pop_front();
            }
            if i % pause == pause - 1 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        (read(&b, &y), b.device.stats().dispatches - before)
    };
    let (numbers, dispatches) = run(1000);
    assert!(dispatches < 400, "{dispatches}");
    for pause in [7, 19, 40, 41, 90, 1000, 1000, 1000] {
        assert_eq!(run(pause), (numbers.clone(), dispatches), "{pause}");
    }
}

#[test]
fn threads_share_a_device() {
    let b = Bench::new("");
    let device = &b.device;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..40 {
                    let n = (thread * 100 + round) as f32;
                    let x = device
                        .upload(bytemuck::cast_slice(&[n; 32]))
                        .expect("upload");
                    let mut x = T::new(x, DType::F32, &[32]);
                    for _ in 0..20 {
                        let y = device.unary("uneg", x.v(), [0.0; 2]).expect("neg");
                        x = T::new(y, x.dtype, &x.dims);
                    }
                    let bytes = device.read(&x.value, 0, 128).expect("bytes");
                    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [n; 32]);
                }
            });
        }
    });
}
