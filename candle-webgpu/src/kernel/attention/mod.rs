//! Scaled dot product attention without the matrix of scores. Where rows are few or keys many, keys are split among
//! workgroups, whose sums a second kernel merges.

pub(crate) mod flash_coop;
pub(crate) mod partition;
pub(crate) mod specialization;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::attention::flash_coop::FLASH_COOP;
use crate::kernel::attention::partition::{share, By};
use crate::kernel::attention::specialization::{
    merge, thread_group, Form, Mask, FLASH_MERGE, MAX_COLUMNS,
};
use crate::kernel::matmul::store::FLOATS;
use crate::memory::binding_range::BindingRange;
use crate::memory::buffer::Value;
use crate::memory::split::{Dims, Loops, Part};
use crate::memory::view::{to_u32, View};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Grid;
use crate::recorder::Recorder;
use crate::shader::Specialization;

const OP: &str = "sdpa";

#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub d: u32,
    pub columns: u32,
    pub queries: u32,
    pub keys: u32,
    pub rows: u32,
    pub heads: u32,
    pub batch: u32,
    pub tiles: u32,
    pub splits: u32,
    pub span: u32,
    pub causal: u32,
    pub scale: f32,
    pub cap: f32,
    pub hidden: f32,
    pub nan: f32,
    pub lowest: f32,
    pub offsets: [u32; 4],
    pub steps: [u32; 4],
    pub q_strides: [u32; 4],
    pub k_strides: [u32; 4],
    pub v_strides: [u32; 4],
    pub mask_strides: [u32; 4],
    pub fill_offset: u32,
    pub pad: [u32; 3],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct MergeParams {
    quads: u32,
    columns: u32,
    splits: u32,
    nan: f32,
}

impl Params {
    /// Without sizes and strides.
    pub fn new() -> Self {
        Params {
            cap: 1.0,
            hidden: f32::NEG_INFINITY,
            nan: f32::NAN,
            lowest: f32::MIN,
            ..bytemuck::Zeroable::zeroed()
        }
    }

    /// Whether all rows of q, k and v can be read by fours, and whether those of the mask can.
    fn starts_whole(&self) -> [bool; 2] {
        let four = |n: &u32| n.is_multiple_of(4);
        let strides = [self.q_strides, self.k_strides, self.v_strides];
        let all = strides.as_flattened().iter().chain(&self.offsets[..3]);
        let mask = self.mask_strides.iter().chain(&self.offsets[3..]);
        [
            self.steps[..3] == [1; 3] && { all }.all(four),
            self.steps[3] == 1 && { mask }.all(four),
        ]
    }
}

/// How scores become weights.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// The last query sees all keys, the one before it all but the last key, and so on.
    pub causal: bool,
    pub scale: f32,
    /// Scores are `cap tanh(s / cap)`; 1 for none.
    pub softcapping: f32,
}

impl Recorder {
    /// `softmax(scale q k^T + mask) v` for q (b, h, i, d), k (b, g, j, d), v (b, g, j, c) and a mask that can be broadcast
    /// to (b, h, i, j), where h is a multiple of g. All of them may lie anyhow. A row that sees no key is NaN.
    pub fn sdpa(
        &self,
        [q, k, v]: [View<'_>; 3],
        mask: Option<View<'_>>,
        how: Attention,
    ) -> Result<Value> {
        if !FLOATS.contains(&q.dtype) {
            return Err(Error::Unsupported {
                op: OP,
                dtype: q.dtype.name(),
            });
        }
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
            return Err(invalid("the dims do not fit together"));
        }
        if g == 0 || !h.is_multiple_of(g) {
            return Err(invalid("heads of q are no multiple of those of k and v"));
        }
        if [d, c]
            .iter()
            .any(|n| *n == 0 || *n > MAX_COLUMNS || !n.is_multiple_of(4))
        {
            return Err(invalid("the last dims are to be multiples of 4 up to 256"));
        }
        if j == 0 {
            return Err(invalid("no keys"));
        }
        let scores = [b, h, i, j];
        let mask = match mask {
            None => None,
            Some(m) => Some(
                broadcast(m, scores)
                    .ok_or_else(|| invalid("the mask cannot be broadcast to the scores"))?,
            ),
        };
        let share = [g, h / g];
        let (q, k, v) = (of_q(q, q.strides, share), of_k(k, share), of_k(v, share));
        let masked = mask.is_some();
        // Without a mask something has to be bound in its place.
        let mask = match mask {
            Some((m, strides)) => of_q(View { dims: &scores, ..m }, &strides, share),
            None => q.clone(),
        };
        let dims = [b, g, h / g, i, c];
        let reads = [q.view(), k.view(), v.view(), mask.view()];
        self.in_parts(OP, reads, (q.dtype, &dims), Loops::First(3), |reads, y| {
            self.attend(reads, masked, how, y)
        })
    }

    fn attend(
        &self,
        reads: [View<'_>; 4],
        masked: bool,
        how: Attention,
        y: BindingRange<'_>,
    ) -> Result<()> {
        let (q_window, q) = self.binding_range(OP, reads[0])?;
        let (k_window, k) = self.binding_range(OP, reads[1])?;
        let (v_window, v) = self.binding_range(OP, reads[2])?;
        let (mask_window, mask) = self.binding_range(OP, reads[3])?;
        let size = |v: View<'_>, dim: usize| to_u32(OP, v.dims[dim]);
        let (queries, keys, d, columns) = (size(q, 3)?, size(k, 3)?, size(q, 4)?, size(v, 4)?);
        let rows = to_u32(OP, q.dims[2] * q.dims[3])?;
        let batch = to_u32(OP, q.dims[0] * q.dims[1])?;
        to_u32(OP, q.dims[..4].iter().product::<usize>() * columns as usize)?;

        let cap = how.softcapping;
        let params = Params {
            d,
            columns,
            queries,
            keys,
            rows,
            heads: size(q, 1)?,
            batch,
            causal: how.causal.into(),
            scale: if cap == 1.0 {
                how.scale
            } else {
                how.scale / cap
            },
            cap,
            offsets: [q, k, v, mask].map(|v| v.offset as u32),
            steps: [q, k, v, mask].map(|v| v.strides[4] as u32),
            q_strides: strides(q),
            k_strides: strides(k),
            v_strides: strides(v),
            mask_strides: strides(mask),
            ..Params::new()
        };
        let mask = if masked {
            Mask::Add(q.dtype)
        } else {
            Mask::None
        };
        let plan = plan(self, (q.dtype, mask), params);
        let windows = [q_window, k_window, v_window, mask_window];
        let Some(merge) = plan.merge else {
            let windows = [&windows[..], &[y]].concat();
            return self.record(plan.spec, &windows, &plan.params, plan.grid);
        };
        let parts = self.output(OP, merge.floats, DType::F32)?;
        let windows = [&windows[..], &[(&parts).into()]].concat();
        self.record(plan.spec, &windows, &plan.params, plan.grid)?;
        self.record(merge.spec, &[(&parts).into(), y], &merge.params, merge.grid)
    }
}

/// What to dispatch.
pub(crate) struct Plan {
    pub spec: Specialization,
    pub params: Params,
    pub grid: Grid,
    /// After it, where keys are split.
    pub merge: Option<Merge>,
}

/// Puts the sums of splits together.
pub(crate) struct Merge {
    pub spec: Specialization,
    pub params: MergeParams,
    pub grid: Grid,
    /// Elements of the sums.
    pub floats: usize,
}

/// Shares the work among workgroups, and decides what `params` leaves open.
pub(crate) fn plan(device: &Gpu, (dtype, mask): (DType, Mask), mut params: Params) -> Plan {
    let [whole, whole_mask] = params.starts_whole();
    let able = flash_coop::suits(device) && !device.denies(&FLASH_COOP);
    let coop = dtype == DType::F16 && whole && able;
    let thread_group = thread_group(device, params.columns);
    let share = share(device.binding_limit(), coop, thread_group, &params);
    let form = Form {
        dtype,
        whole,
        mask,
        whole_mask,
        parts: share.splits > 1,
    };
    let spec = match share.by {
        By::Coop(tile) => form.coop(tile),
        By::Tile(tile) => form.flash(tile),
        By::Block(block) => form.decode(block, params.d),
        By::Teams(block, thread_group) => form.thread_groups(block, thread_group),
    };
    params.tiles = params.rows.div_ceil(share.rows);
    params.splits = share.splits;
    params.span = share.span;
    let groups = u64::from(params.batch) * u64::from(params.tiles) * u64::from(share.splits);
    let all = params.batch as usize * params.rows as usize;
    let columns = params.columns as usize;
    let merge = (share.splits > 1).then(|| {
        let quads = (all * columns / 4) as u32;
        Merge {
            spec: merge(dtype),
            params: MergeParams {
                quads,
                columns: params.columns / 4,
                splits: share.splits,
                nan: f32::NAN,
            },
            grid: Grid::Linear(u64::from(quads).div_ceil(FLASH_MERGE.workgroup.into())),
            floats: (all * (columns + 4)).saturating_mul(share.splits as usize),
        }
    });
    Plan {
        spec,
        params,
        grid: Grid::Linear(groups),
        merge,
    }
}

/// A mask as a view of four dims: its strides, 0 along those in which it is repeated.
fn broadcast<'a>(m: View<'a>, to: [usize; 4]) -> Option<(View<'a>, [usize; 4])> {
    let skipped = 4usize.checked_sub(m.dims.len())?;
    let mut strides = [0; 4];
    for (i, (&size, &stride)) in m.dims.iter().zip(m.strides).enumerate() {
        match size {
            _ if size == to[skipped + i] => strides[skipped + i] = stride,
            1 => {}
            _ => return None,
        }
    }
    Some((m, strides))
}

/// (b, h, i, last) as (b, g, h / g, i, last).
fn of_q<'a>(v: View<'a>, s: &[usize], [g, each]: [usize; 2]) -> Part<'a> {
    Part {
        value: v.value,
        dtype: v.dtype,
        dims: Dims::from_slice(&[v.dims[0], g, each, v.dims[2], v.dims[3]]),
        strides: Dims::from_slice(&[s[0], s[1] * each, s[1], s[2], s[3]]),
        offset: v.offset,
    }
}

/// (b, g, j, last) as (b, g, h / g, j, last).
fn of_k<'a>(v: View<'a>, [_, each]: [usize; 2]) -> Part<'a> {
    Part::from(v).repeat(2, each)
}

/// Along all dims but the last, 0 where there is nothing to step over.
fn strides(v: View<'_>) -> [u32; 4] {
    [0, 1, 2, 3].map(|d| match v.dims[d] {
        1 => 0,
        _ => v.strides[d] as u32,
    })
}
