//! Scaled dot product attention (`sdpa`) that never stores the matrix of scores.
//!
//! `plan` chooses the kernel and, where there are too few rows to fill the adapter, splits the keys among
//! workgroups, whose partial results `flash_merge` combines. Where there are many rows, `block_mask` first finds what a mask hides.

pub(crate) mod block_mask;
pub(crate) mod flash;
pub(crate) mod flash_coop;
pub(crate) mod flash_decode;
pub(crate) mod flash_decode_coop;
mod partition;
pub(crate) mod plan;
pub(crate) mod rope_flash_decode;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::attention::plan::{plan, Mask, Params, MAX_HEAD_DIM};
use crate::kernel::matmul::store::FLOATS;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::merge::to_u32;
use crate::memory::split::{Dims, Loops, Part};
use crate::memory::view::View;
use crate::recorder::Recorder;

pub use plan::catalogue;

const OP: &str = "sdpa";

/// How scores become weights.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// The last query sees all keys, the one before it all but the last key, and so on.
    pub causal: bool,
    pub scale: f32,
    /// Scores are `softcapping tanh(s / softcapping)`; 1 for none.
    pub softcapping: f32,
}

impl Recorder {
    /// `softmax(scale q k^T + mask) v`, with grouped-query attention: q is (b, h, i, d), k (b, g, j, d) and v (b, g, j, c), where h
    /// is a multiple of the KV heads g; the result is (b, h, i, c). The mask is added and broadcasts to (b, h, i, j). Any strides
    /// are accepted. A row that sees no key is NaN.
    ///
    /// All operands have one float dtype; d and c are multiples of 4 up to 256.
    pub fn sdpa(
        &self,
        [q, k, v]: [View<'_>; 3],
        mask: Option<View<'_>>,
        how: Attention,
    ) -> Result<Value> {
        q.dtype.one_of(&FLOATS, OP)?;
        let show = |v: View<'_>| format!("{:?} {}", v.dims, v.dtype);
        let invalid = |why: &str| Error::Invalid {
            op: OP,
            message: format!(
                "q {}, k {}, v {}{}: {why}",
                show(q),
                show(k),
                show(v),
                mask.map_or(String::new(), |m| format!(", mask {}", show(m)))
            ),
        };
        let four =
            |v: View<'_>| <[usize; 4]>::try_from(v.dims).map_err(|_| invalid("not four dims"));
        let ([b, h, i, d], [kb, g, j, kd], [vb, vg, vj, c]) = (four(q)?, four(k)?, four(v)?);
        if [k.dtype, v.dtype].iter().any(|e| *e != q.dtype)
            || mask.is_some_and(|m| m.dtype != q.dtype)
        {
            return Err(invalid("the dtypes differ"));
        }
        if (kb, kd) != (b, d) || (vb, vg, vj) != (b, g, j) {
            return Err(invalid("the dims do not match"));
        }
        if g == 0 || !h.is_multiple_of(g) {
            return Err(invalid(
                "the heads of q are not a multiple of the heads of k and v",
            ));
        }
        let fits = |n: &usize| (1..=MAX_HEAD_DIM).contains(n) && n.is_multiple_of(4);
        if ![d, c].iter().all(fits) {
            return Err(invalid("the last dim must be a multiple of 4 up to 256"));
        }
        if j == 0 {
            return Err(invalid("no keys"));
        }
        let scores = [b, h, i, j];
        let group = h / g;
        let q = of_query_heads(q, q.strides, group);
        let [k, v] = [k, v].map(|kv| Part::from(kv).repeat(2, group));
        let masked = mask.map_or(Mask::None, |m| Mask::Add(m.dtype));
        // Without a mask, q is bound in its place.
        let mask = match mask {
            Some(m) => {
                let strides = broadcast(m, scores)
                    .ok_or_else(|| invalid("the mask cannot be broadcast to the scores"))?;
                of_query_heads(View { dims: &scores, ..m }, &strides, group)
            }
            None => q.clone(),
        };
        let dims = [b, g, group, i, c];
        let reads = [q.view(), k.view(), v.view(), mask.view()];
        let y = (q.dtype, &dims[..]);
        self.in_bound_parts(OP, reads, y, Loops::First(3), |reads, ranges| {
            self.attend(reads, masked, how, ranges)
        })
    }

    /// Attention of operands that each fit in a binding.
    fn attend(
        &self,
        [q, k, v, mask]: [View<'_>; 4],
        masked: Mask,
        how: Attention,
        ranges: &[BindingRange<'_>],
    ) -> Result<()> {
        let size = |v: View<'_>, dim: usize| to_u32(OP, v.dims[dim]);
        let v_dim = size(v, 4)?;
        to_u32(OP, q.dims[..4].iter().product::<usize>() * v_dim as usize)?;

        let softcap = how.softcapping;
        let (queries, kv_heads) = (size(q, 3)?, size(q, 1)?);
        let rows = to_u32(OP, q.dims[2] * q.dims[3])?;
        let quads = v_dim / 4;
        let params = Params {
            head_dim: size(q, 4)?,
            v_dim,
            queries,
            keys: size(k, 3)?,
            rows,
            kv_heads,
            matrices: to_u32(OP, q.dims[0] * q.dims[1])?,
            causal: how.causal.into(),
            scale: if softcap == 1.0 {
                how.scale
            } else {
                how.scale / softcap
            },
            softcap,
            offsets: [q, k, v, mask].map(|v| v.offset as u32),
            inner_strides: [q, k, v, mask].map(|v| v.strides[4] as u32),
            q_strides: strides(q),
            k_strides: strides(k),
            v_strides: strides(v),
            mask_strides: strides(mask),
            y_strides: [kv_heads * rows, rows, queries, 1].map(|row| row * quads),
            ..Params::new()
        };
        let plan = plan(self, (q.dtype, masked), params);
        let partials = plan.merge.as_ref().map(|merge| merge.floats);
        let partials = partials
            .map(|n| self.output(OP, n, DType::F32))
            .transpose()?;
        let blocks = plan.block_mask.as_ref().map(|made| made.words);
        let blocks = blocks.map(|n| self.output(OP, n, DType::U32)).transpose()?;
        let y = partials.as_ref().map_or(ranges[4], BindingRange::from);
        let mut operands = [&ranges[..4], &[y]].concat();
        if let (Some(made), Some(blocks)) = (plan.block_mask, &blocks) {
            operands.push(blocks.into());
            let bound = [ranges[3], blocks.into()];
            self.record(made.spec, &bound, &made.params, made.grid)?;
        }
        self.record(plan.spec, &operands, &plan.params, plan.grid)?;
        let (Some(merge), Some(partials)) = (plan.merge, &partials) else {
            return Ok(());
        };
        let ranges = [partials.into(), ranges[4]];
        self.record(merge.spec, &ranges, &merge.params, merge.grid)
    }
}

/// The strides of a mask along four dims, 0 where it is broadcast.
fn broadcast(m: View<'_>, to: [usize; 4]) -> Option<[usize; 4]> {
    let skipped = 4usize.checked_sub(m.dims.len())?;
    let mut strides = [0; 4];
    for (i, (&size, &stride)) in m.dims.iter().zip(m.strides).enumerate() {
        match size {
            _ if size == to[skipped + i] => strides[skipped + i] = stride,
            1 => {}
            _ => return None,
        }
    }
    Some(strides)
}

/// (b, h, i, last) as (b, h / group, group, i, last): `group` query heads share a KV head.
fn of_query_heads<'a>(v: View<'a>, s: &[usize], group: usize) -> Part<'a> {
    Part {
        dims: Dims::from_slice(&[v.dims[0], v.dims[1] / group, group, v.dims[2], v.dims[3]]),
        strides: Dims::from_slice(&[s[0], s[1] * group, s[1], s[2], s[3]]),
        ..v.into()
    }
}

/// The strides of all dims but the last; 0 for dims of size 1.
fn strides(v: View<'_>) -> [u32; 4] {
    [0, 1, 2, 3].map(|d| v.step(d) as u32)
}
