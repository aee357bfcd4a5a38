//! Uniform and normal random numbers from a counter-based generator (Philox).

use crate::dtype::{Compute, DType, FLOATS};
use crate::error::Result;
use crate::kernel::{quads, words, WORKGROUP};
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::split::Loops;
use crate::memory::view::to_u32;
use crate::recorder::Recorder;
use crate::shader::{params, write, Access, Kernel, Specialization};

pub static RANDOM: Kernel = Kernel {
    name: "random",
    source: wgsl!("kernel/random/random.wgsl"),
    params: Params::LAYOUT,
    bindings: &[write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
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
};

/// The same in f64: two numbers per draw.
pub static RANDOM_F64: Kernel = Kernel {
    name: "random_f64",
    source: wgsl!("kernel/random/random_f64.wgsl"),
    params: F64Params::LAYOUT,
    bindings: &[write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
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

/// The first element of a binding range, and the number of its elements.
fn line(y: &BindingRange<'_>, dtype: DType) -> (u64, usize) {
    let size = dtype.size() as u64;
    (y.start / size, (y.bytes / size) as usize)
}

impl Recorder {
    /// `count` uniform numbers from [lo, hi). Equal seeds give equal bits on every adapter.
    pub fn rand_uniform(&self, count: usize, dtype: DType, lo: f64, hi: f64) -> Result<Value> {
        if dtype == DType::F64 {
            let most = hi.next_down().max(lo);
            return self.random_f64(UNIFORM, count, [lo, hi - lo, lo, most]);
        }
        let least = not_below(dtype, lo);
        let most = below(dtype, hi).max(least);
        self.random(
            UNIFORM,
            count,
            dtype,
            [lo as f32, (hi - lo) as f32, least, most],
        )
    }

    /// `count` normally distributed numbers.
    pub fn rand_normal(&self, count: usize, dtype: DType, mean: f64, std: f64) -> Result<Value> {
        if dtype == DType::F64 {
            return self.random_f64(NORMAL, count, [mean, std, f64::MIN, f64::MAX]);
        }
        let [mean, std] = [mean as f32, std as f32];
        self.random(NORMAL, count, dtype, [mean, std, f32::MIN, f32::MAX])
    }

    fn random_f64(
        &self,
        op: &'static str,
        count: usize,
        [a, b, least, most]: [f64; 4],
    ) -> Result<Value> {
        let out = (DType::F64, &[count][..]);
        let (seed, counter) = self.rng_next(2 * count.div_ceil(4) as u64);
        self.in_parts(op, [], out, Loops::Elements, |[], y| {
            let (first, n) = line(&y, DType::F64);
            let params = F64Params {
                n: to_u32(op, n)?,
                pad: 0,
                seed: words(seed),
                counter: words(counter.wrapping_add(first / 2)),
                a,
                b,
                least,
                most,
                pad2: [0; 2],
            };
            self.record(spec(op, DType::F64), &[y], &params, quads(n))
        })
    }

    fn random(
        &self,
        op: &'static str,
        count: usize,
        dtype: DType,
        [a, b, least, most]: [f32; 4],
    ) -> Result<Value> {
        dtype.one_of(&FLOATS, op)?;
        let (seed, counter) = self.rng_next(count.div_ceil(4) as u64);
        let out = (dtype, &[count][..]);
        self.in_parts(op, [], out, Loops::Elements, |[], y| {
            let (first, n) = line(&y, dtype);
            let params = Params {
                n: to_u32(op, n)?,
                zero: 0,
                seed: words(seed),
                counter: words(counter.wrapping_add(first / 4)),
                a,
                b,
                least,
                most,
            };
            self.record(spec(op, dtype), &[y], &params, quads(n))
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
