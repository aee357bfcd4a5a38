//! Random numbers: the generator's published test vectors, bounds, moments. Runs in its own process, since the seed
//! belongs to the device.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod table;

use candle_webgpu::{DType, Device};
use table::{device, read};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Philox4x32-10 as its paper defines it.
fn philox(key: u64, counter: u64) -> [u32; 4] {
    let mut k = [key as u32, (key >> 32) as u32];
    let mut c = [counter as u32, (counter >> 32) as u32, 0, 0];
    for _ in 0..10 {
        let a = 0xd251_1f53_u64 * u64::from(c[0]);
        let b = 0xcd9e_8d57_u64 * u64::from(c[2]);
        c = [
            (b >> 32) as u32 ^ c[1] ^ k[0],
            b as u32,
            (a >> 32) as u32 ^ c[3] ^ k[1],
            a as u32,
        ];
        k = [
            k[0].wrapping_add(0x9e37_79b9),
            k[1].wrapping_add(0xbb67_ae85),
        ];
    }
    c
}

fn uniform(d: &Device, n: usize, dtype: DType, lo: f64, hi: f64) -> Vec<f64> {
    read(d, dtype, &d.rand_uniform(n, dtype, lo, hi).unwrap())
}

#[test]
fn everything() {
    let d = device();
    // The paper's test vector for a counter and a key of zeros.
    assert_eq!(
        philox(0, 0),
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
    );

    // Bit for bit, across calls and with seeds of more than 32 bits.
    for seed in [0, 42, 0xdead_beef_1234_5678] {
        d.set_seed(seed);
        let x = [
            uniform(&d, 1003, DType::F32, 0.0, 1.0),
            uniform(&d, 6, DType::F32, -3.0, 5.0),
        ];
        let unit = |i: u64, k: usize| (philox(seed, i)[k] >> 8) as f32 / 16_777_216.0;
        for (i, v) in x[0].iter().enumerate() {
            assert_eq!(unit(i as u64 / 4, i % 4), *v as f32, "{i}");
        }
        for (i, v) in x[1].iter().enumerate() {
            let want = unit(251 + i as u64 / 4, i % 4) * 8.0 - 3.0;
            assert_eq!(want, *v as f32, "{i}");
        }
        d.set_seed(seed);
        assert_eq!(x[0], uniform(&d, 1003, DType::F32, 0.0, 1.0));
    }

    for dtype in FLOATS {
        for (lo, hi) in [
            (0.0, 1.0),
            (0.1, 0.3),
            (-1.0, 0.0),
            (-7.0, -6.5),
            (100.0, 101.0),
        ] {
            let n = 300_000;
            let x = uniform(&d, n, dtype, lo, hi);
            assert!(x.iter().all(|v| (lo..hi).contains(v)), "{dtype} {lo}..{hi}");
            let mean = x.iter().sum::<f64>() / n as f64;
            let step = table::decode(dtype, &table::encode(dtype, &[hi]))[0].abs() / 100.0;
            let close = 0.005 * (hi - lo) + if dtype == DType::F32 { 0.0 } else { step };
            assert!(
                (mean - (lo + hi) / 2.0).abs() < close,
                "{dtype} {lo}..{hi}: {mean}"
            );
        }
        d.set_seed(7);
        let n = 400_001;
        let x = read(&d, dtype, &d.rand_normal(n, dtype, 3.0, 2.0).unwrap());
        let z: Vec<f64> = x.iter().map(|v| (v - 3.0) / 2.0).collect();
        let moment = |k: i32| z.iter().map(|v| v.powi(k)).sum::<f64>() / n as f64;
        for (k, want) in [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)] {
            let got = moment(k);
            assert!((got - want).abs() < 0.04, "{dtype} moment {k}: {got}");
        }
        let beyond = z.iter().filter(|v| v.abs() > 3.0).count() as f64 / n as f64;
        assert!((beyond - 0.0027).abs() < 0.0005, "{dtype}: {beyond}");
    }
    assert_eq!(d.rand_normal(0, DType::F32, 0.0, 1.0).unwrap().bytes(), 0);
    assert!(d.rand_normal(4, DType::I64, 0.0, 1.0).is_err());
}
