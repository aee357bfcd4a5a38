//! Shared by the tests of dtypes: numbers that are hard to round, and f64 to and from a device.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use candle_webgpu::{DType, Device, Value, View};

use crate::table::decode;

pub fn line(value: &Value, dtype: DType, n: usize) -> View<'_> {
    // Leaks a few words per test.
    let dims: &'static [usize] = Box::leak(Box::new([n]));
    View::new("test", value, dtype, (dims, &[1], 0)).unwrap()
}

pub fn f64_bytes(x: &[f64]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub fn f64_of(bytes: &[u8]) -> Vec<f64> {
    bytes
        .chunks_exact(8)
        .map(|c| f64::from_le_bytes(c.try_into().unwrap()))
        .collect()
}

/// Numbers of every magnitude and sign, the hard ones first.
pub fn hard() -> Vec<f64> {
    #[rustfmt::skip]
    let mut x = vec![
        0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5,
        // Limits and subnormals of f64.
        f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, f64::MIN_POSITIVE,
        f64::from_bits(1), -f64::from_bits(3), f64::from_bits(0x000f_ffff_ffff_ffff),
        // Rounding to whole numbers.
        0.49999999999999994, 4503599627370495.5, 4503599627370497.0, 9007199254740993.0,
        // Limits of f32.
        1e300, 1e-300, 1e-310, 3.4028235e38, 3.4028235677973366e38, 1e-45, 7e-46, 7.1e-46, 1.1754943e-38,
        // Limits of integers.
        2147483647.0, 2147483648.0, -2147483648.0, -2147483649.0, 4294967295.0, 4294967296.0,
        9.223372036854775e18, 9.223372036854776e18, -9.3e18, 32767.5, -32768.9, -40000.0, 255.9, 256.0,
        // Limits of f8e4m3 and f16.
        448.0, 464.0, 465.0, 65504.0, 65520.0, 65519.99999999999,
        // Ties of f16 and f8e4m3, and their neighbours.
        1.0 + 1.0 / 2048.0 + 1e-12, 1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0 - 1e-13,
        1.0625, 1.0625000000001, 1.1875, 0.0009765625, 0.0009765626, 0.0029296875,
    ];
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for i in 0..400 {
        let bits = next();
        let exponent = match i % 4 {
            0 => bits >> 52 & 0x7ff,
            1 => 1023 - 12 + next() % 24,
            2 => 1023 - 150 + next() % 300,
            _ => 1023 - 2 + next() % 70,
        };
        x.push(f64::from_bits(
            bits & 0x800f_ffff_ffff_ffff | exponent << 52,
        ));
    }
    x
}

pub fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

pub fn read_n(d: &Device, dtype: DType, value: &Value, n: usize) -> Vec<f64> {
    decode(dtype, &d.read(value, 0, (n * dtype.size()) as u64).unwrap())
}
