//! Masks as an operand of sdpa.

use candle_core::{DType, Device, Tensor};

use crate::attention::{Case, LIES};
use crate::case::Cases;
use crate::input::{tensor, Fill, Operand};

pub fn add(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    for dims in [
        &[2, 4, 0, 70][..],
        &[1, 4, 0, 70],
        &[2, 1, 0, 70],
        &[2, 1, 1, 70],
        &[1, 1, 0, 1],
        &[0, 70],
        &[70],
    ] {
        cases.add(format!("attention/{name}/mask/{dims:?}"), move |d| {
            for queries in [1, 6, 50] {
                // 0 means the number of queries.
                let dims: Vec<usize> = dims
                    .iter()
                    .map(|n| if *n == 0 { queries } else { *n })
                    .collect();
                let case = Case {
                    heads: [4, 2],
                    ..Case::new(dtype, queries, 70, 64)
                };
                let mut operands = case.operands(&LIES[0])?;
                operands.push(Operand::of(tensor(dtype, &dims, 144, Fill::Small)?));
                case.check(d, &operands)?;
                case.causal(true).check(d, &operands)?;
                if dims.len() == 4 {
                    let base = tensor(dtype, &dims, 145, Fill::Small)?;
                    operands[3] = Operand::viewed(base, |t| t.broadcast_as((2, 4, t.dim(2)?, 70)));
                    case.check(d, &operands)?;
                }
            }
            Ok(())
        });
    }
    cases.add(format!("attention/{name}/mask/rising"), move |device| {
        // Scores rise by 9 at key 64, in odd rows at key 48; the values of keys before are large enough to count.
        for queries in [1, 9, 40, 70] {
            let keys = 127;
            let rises = |n: usize| n % keys + n / keys % 2 * 16 >= 64;
            let mask = (0..queries * keys).map(|n| [0f32, 9.][usize::from(rises(n))]);
            let mask: Vec<f32> = mask.collect();
            let mask = Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?;
            let large = (0..keys).map(|j| [1f64, 500.][usize::from(j < 48)]);
            let large = Tensor::from_vec(large.collect(), (keys, 1), &Device::Cpu)?;
            for d in [64, 96, 128] {
                let case = Case::new(dtype, queries, keys, d);
                let mut operands = case.operands(&LIES[0])?;
                let v = operands[2].wide()?.broadcast_mul(&large)?;
                operands[2] = Operand::of(v.to_dtype(dtype)?);
                operands.push(Operand::of(mask.to_dtype(dtype)?));
                case.check(device, &operands)?;
            }
        }
        Ok(())
    });
    cases.add(format!("attention/{name}/mask/hidden"), move |d| {
        // Row i sees the first 9 i keys, row 0 none, which is NaN.
        for (queries, from) in [(6, 0), (6, 1), (1, 0), (40, 0), (40, 3)] {
            let mask: Vec<f32> = (0..queries * 90)
                .map(|n| match n % 90 < 9 * (n / 90 + from) {
                    true => 0.,
                    false => f32::NEG_INFINITY,
                })
                .collect();
            let mask = Tensor::from_vec(mask, (queries, 90), &Device::Cpu)?;
            let case = Case::new(dtype, queries, 90, 64);
            let mut operands = case.operands(&LIES[1])?;
            operands.push(Operand::of(mask.to_dtype(dtype)?));
            case.check(d, &operands)?;
        }
        Ok(())
    });
    cases.add(
        format!("attention/{name}/mask/hidden_large"),
        move |device| {
            // Hidden keys and values must not cost others any precision.
            let large = if dtype == DType::F16 { 1e4 } else { 1e30 };
            let keys = 90;
            let by = |hidden, seen| {
                let of = (0..keys).map(|j| if j % 5 == 2 { hidden } else { seen });
                Tensor::from_vec(of.collect::<Vec<f64>>(), (keys, 1), &Device::Cpu)
            };
            let mask = by(f64::NEG_INFINITY, 0.)?.t()?.to_dtype(dtype)?;
            for (queries, d) in [(1, 64), (40, 64), (40, 128)] {
                let case = Case::new(dtype, queries, keys, d);
                let mut operands = case.operands(&LIES[0])?;
                for operand in &mut operands[1..] {
                    let x = operand.wide()?.broadcast_mul(&by(large, 1.)?)?;
                    *operand = Operand::of(x.to_dtype(dtype)?);
                }
                operands.push(Operand::of(
                    mask.broadcast_as((queries, keys))?.contiguous()?,
                ));
                case.check(device, &operands)?;
            }
            Ok(())
        },
    );
}

/// Masks that hide or change some tiles of keys and leave others as they are, broadcast in all ways. The sizes are heads, KV heads, queries and
/// keys: row tiles of single heads and across heads, and more keys than a word of the block mask has bits for.
pub fn add_blocks(cases: &mut Cases, dtype: DType) {
    let name = dtype.as_str();
    for [h, g, queries, keys] in [[2, 1, 300, 300], [4, 1, 70, 600], [2, 2, 128, 1100]] {
        cases.add(
            format!("attention/{name}/mask/blocks/{h}x{queries}x{keys}"),
            move |d| {
                for dims in [
                    [1, h, queries, keys],
                    [2, 1, queries, keys],
                    [2, 1, 1, keys],
                    [1, h, 1, keys],
                ] {
                    let [_, heads, rows, _] = dims;
                    // Each row sees a window of keys, which differs between heads and batches. Every third row changes scores in it.
                    let of = |n: usize| {
                        let (j, row) = (n % keys, n / keys);
                        let end = ((row % rows + 1) * keys / rows)
                            .saturating_sub(row / rows % heads * 40);
                        let seen = j < end && j + 150 >= end || j < 8;
                        match (seen, row % 3) {
                            (false, _) => f32::NEG_INFINITY,
                            (true, 0) => 0.5,
                            _ => 0.,
                        }
                    };
                    let mask = (0..dims.iter().product()).map(of).collect();
                    let mask = Tensor::from_vec(mask, &dims, &Device::Cpu)?;
                    let case = Case {
                        heads: [h, g],
                        ..Case::new(dtype, queries, keys, 16)
                    };
                    let mut operands = case.operands(&LIES[0])?;
                    operands.push(Operand::of(mask.to_dtype(dtype)?));
                    case.check(d, &operands)?;
                }
                Ok(())
            },
        );
    }
}
