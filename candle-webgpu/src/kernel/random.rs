//! Uniform and normal random numbers from a counter-based generator (Philox).

use crate::dtype::{Compute, DType, FLOATS};
use crate::error::Result;
use crate::kernel::{quads, words};
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::Loops;
use crate::recorder::Recorder;
use crate::shader::{params, Access, Kernel, Specialization};

pub static RANDOM: Kernel = Kernel {
    slots: |spec, text| {
        text.file(wgsl!("lib/philox.wgsl"));
        if spec.op == UNIFORM {
            text.line("fn draw(bits: vec4<u32>) -> vec4<f32> { return unit(bits); }");
            return Ok(());
        }
        text.ops(Compute::F32);
        text.part(wgsl!("kernel/random/random_normal.wgsl"));
        Ok(())
    },
    ..kernel!("random", "random", Params::LAYOUT; write y)
};

/// The same in f64: two numbers per draw.
pub static RANDOM_F64: Kernel = Kernel {
    slots: |spec, text| {
        text.file(wgsl!("lib/philox.wgsl"));
        text.ops(Compute::F64);
        text.part(wgsl!("kernel/random/random_f64_finish.wgsl"));
        if spec.op == UNIFORM {
            text.line("fn draw(bits: vec4<u32>) -> array<YV, 2> { return array<YV, 2>(unit(bits.xy), unit(bits.zw)); }");
        } else {
            text.part(wgsl!("kernel/random/random_f64_normal.wgsl"));
        }
        Ok(())
    },
    ..kernel!("random", "random_f64", F64Params::LAYOUT; write y)
};

const UNIFORM: &str = "rand_uniform";
const NORMAL: &str = "rand_normal";

fn spec(op: &'static str, dtype: DType) -> Specialization {
    let kernel = match dtype {
        DType::F64 => &RANDOM_F64,
        _ => &RANDOM,
    };
    Specialization::new(kernel, op, &[(dtype, Access::Put)])
}

pub fn catalogue() -> Vec<Specialization> {
    let both = |e| [spec(UNIFORM, e), spec(NORMAL, e)];
    FLOATS.into_iter().flat_map(both).collect()
}

params! {
    struct Params {
        n: u32,
        zero: u32,
        seed: [u32; 2],
        counter: [u32; 2],
        a: f32,
        b: f32,
        least: f32,
        most: f32,
    }
}

params! {
    struct F64Params {
        n: u32,
        pad: u32,
        seed: [u32; 2],
        counter: [u32; 2],
        a: f64,
        b: f64,
        least: f64,
        most: f64,
        pad2: [u32; 2],
    }
}

/// The nearest value of a dtype that is computed in f32.
fn nearest(dtype: DType, v: f64) -> f32 {
    f32::from_bits((dtype.info().scalar)(v) as u32)
}

/// The smallest value of a dtype that is not below `v`.
fn not_below(dtype: DType, v: f64) -> f32 {
    let near = nearest(dtype, v);
    if f64::from(near) >= v {
        near
    } else {
        -step_down(dtype, -near)
    }
}

/// The greatest value of a dtype below `v`.
fn below(dtype: DType, v: f64) -> f32 {
    let near = nearest(dtype, v);
    if f64::from(near) < v {
        near
    } else {
        step_down(dtype, near)
    }
}

/// The greatest value of a dtype below its value `v`, or `v` if there is none. Subnormals that some adapters flush are skipped.
fn step_down(dtype: DType, v: f32) -> f32 {
    if v == 0.0 {
        return -dtype.info().float.map_or(0.0, |float| float.tiny);
    }
    // Floats of one sign are ordered as their bits. Rounded to the dtype, v changes at the first power of two that reaches half a step.
    let moved = |k: u32| match v > 0.0 {
        true => v.to_bits().wrapping_sub(1 << k),
        false => v.to_bits().wrapping_add(1 << k),
    };
    let mut candidates = (0..24).map(|k| nearest(dtype, f32::from_bits(moved(k)).into()));
    candidates.find(|c| *c < v).unwrap_or(v)
}

impl Recorder {
    /// `count` uniform numbers from [lo, hi). Equal seeds give equal bits on every adapter.
    pub fn rand_uniform(&self, count: usize, dtype: DType, lo: f64, hi: f64) -> Result<Value> {
        let [least, most] = match dtype {
            DType::F64 => [lo, hi.next_down()],
            _ => [not_below(dtype, lo), below(dtype, hi)].map(f64::from),
        };
        let most = most.max(least);
        self.random(UNIFORM, count, dtype, [lo, hi - lo, least, most])
    }

    /// `count` normally distributed numbers.
    pub fn rand_normal(&self, count: usize, dtype: DType, mean: f64, std: f64) -> Result<Value> {
        let [least, most] = match dtype {
            DType::F64 => [f64::MIN, f64::MAX],
            _ => [f32::MIN, f32::MAX].map(f64::from),
        };
        self.random(NORMAL, count, dtype, [mean, std, least, most])
    }

    fn random(
        &self,
        op: &'static str,
        count: usize,
        dtype: DType,
        numbers: [f64; 4],
    ) -> Result<Value> {
        dtype.one_of(&FLOATS, op)?;
        let is_f64 = dtype == DType::F64;
        // For four elements.
        let draws = if is_f64 { 2 } else { 1 };
        let (seed, counter) = self.rng_next(draws * count.div_ceil(4) as u64);
        let out = (dtype, &[count][..]);
        self.in_parts(op, [], out, Loops::Elements, |[], y| {
            let [first, n] = [y.start, y.bytes].map(|bytes| bytes / dtype.size() as u64);
            let (spec, grid) = (spec(op, dtype), quads(n as usize));
            let (n, seed) = (to_u32(op, n as usize)?, words(seed));
            let counter = words(counter.wrapping_add(draws * first / 4));
            if is_f64 {
                let [a, b, least, most] = numbers;
                let params = F64Params {
                    n,
                    pad: 0,
                    seed,
                    counter,
                    a,
                    b,
                    least,
                    most,
                    pad2: [0; 2],
                };
                return self.record(spec, &[y], &params, grid);
            }
            let [a, b, least, most] = numbers.map(|v| v as f32);
            let params = Params {
                n,
                zero: 0,
                seed,
                counter,
                a,
                b,
                least,
                most,
            };
            self.record(spec, &[y], &params, grid)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use float8::F8E4M3;
    use half::{bf16, f16};

    #[test]
    fn steps_to_the_neighbour() {
        for bits in 1..0x7c00 {
            let [below, above] = [bits - 1, bits].map(|b| f16::from_bits(b).to_f32());
            let down = [above, -below].map(|v| step_down(DType::F16, v));
            match bits {
                1 => assert_eq!(down, [0.0, -f16::MIN_POSITIVE.to_f32()]),
                _ => assert_eq!(down, [below, -above]),
            }
        }
        for bits in 2..0x7f80 {
            let [below, above] = [bits - 1, bits].map(|b| bf16::from_bits(b).to_f32());
            assert_eq!(step_down(DType::Bf16, above), below);
            assert_eq!(step_down(DType::Bf16, -below), -above);
        }
        for bits in 1..0x7f {
            let [below, above] = [bits - 1, bits].map(|b| F8E4M3::from_bits(b).to_f32());
            assert_eq!(step_down(DType::F8E4M3, above), below);
            assert_eq!(step_down(DType::F8E4M3, -below), -above);
        }
        assert_eq!(step_down(DType::F8E4M3, -448.0), -448.0);
        assert_eq!(step_down(DType::F32, 1.0), 1f32.next_down());
    }
}
