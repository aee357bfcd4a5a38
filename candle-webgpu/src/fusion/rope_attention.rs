//! The attention of one query per head rotates its query and the newest key, and writes that key and its value to the KV cache: the kernel
//! of `rope_kv_cache` disappears. Runs after the rules that make both kernels. Bit for bit what they compute.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::{attention, concat, rope_kv_cache, rope_qk};
use crate::kernel::attention::flash_decode::grid;
use crate::kernel::attention::plan::Params;
use crate::kernel::attention::rope_flash_decode::{spec, writers};
use crate::kernel::rope::kv_cache::ROPE_KV_CACHE;
use crate::kernel::rope::qk::{Part, QkParams, Side};
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;

pub(crate) const RULE: Rule = Rule {
    name: "rope_attention",
    about: "a kernel of `rope_kv_cache` and the attention of one query per head that reads its queries and caches: one kernel",
    enabled: Enabled::OnGpu,
    exact: Exact::Before("softmax_last_dim"),
    needs: &[
        &attention::RULE,
        &rope_qk::RULE,
        &concat::RULE,
        &rope_kv_cache::RULE,
    ],
    at: &[&ROPE_KV_CACHE],
    apply: Apply::Batch(Scan::Due, find),
};

/// The operands of [`ROPE_KV_CACHE`]: x, c, s, y, u, w, a, z, b, e.
const Y: usize = 3;

/// The `rope_kv_cache` at a place and the attention that reads its queries.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let rope = graph.op(at)?;
    let reader = graph.sole_reader(at, Y)?;
    let to = graph.place_for(&[at, reader], [at, reader])?;
    let op = fuse(device, rope, graph.op(reader)?)?;
    Some(Rewrite::new(&[at, reader], to, [op]))
}

fn fuse(device: &Gpu, rope: &Op, flash: &Op) -> Option<Box<Op>> {
    let spec = spec(&rope.spec, &flash.spec)?;
    let ([x, c, s, y, u, w, a, z], before) = rope.operands.split_first_chunk()?;
    let [q, k, v, _, out] = &flash.operands[..] else {
        return None;
    };
    let same = [(q, y), (k, w), (v, z)];
    let same = same.iter().all(|(a, b)| a.0.same(&b.0) && a.1 == b.1);
    let made: QkParams = rope.params();
    let read: Params = flash.params();
    let batch = read.matrices.checked_div(read.kv_heads)?;
    let sizes = [batch, read.kv_heads, read.rows];
    let (d, old) = (
        read.head_dim,
        read.keys.checked_sub(1).filter(|old| *old > 0)?,
    );
    let dense = [sizes[1] * sizes[2] * d, sizes[2] * d, d];
    let heads = [0, 1, 2]
        .iter()
        .all(|i| sizes[*i] == 1 || read.q_strides[*i] == dense[*i]);
    if !same || read.queries != 1 || read.offsets[0] != 0 || made.head_dim != d || !heads {
        return None;
    }
    let [x_head, u_head] = [along_heads(&made, 0)?, along_heads(&made, 1)?];
    let [y_batch, y_head, ..] = read.y_strides;
    if batch > 1 && y_batch != read.kv_heads * y_head {
        return None;
    }
    let [keys, mut values, old_keys, mut old_values] = made.parts;
    let (mut a, b, mut e) = (a, before.first(), before.get(1));
    // The copies of values are in the order in which they were recorded.
    if let Some(other) = e.filter(|_| old_values.place > values.place) {
        std::mem::swap(&mut values, &mut old_values);
        (a, e) = (other, Some(a));
    }
    let [old_keys, old_values] =
        [(b, old_keys), (e, old_values)].map(|(of, part)| of.map(|_| part));
    let key = Cache {
        matrices: read.matrices,
        kv_heads: read.kv_heads,
        row: d / 4,
        old,
    };
    let value = Cache {
        row: read.v_dim / 4,
        ..key
    };
    let [w_step, _, k_step] =
        key.steps(read.offsets[1], read.k_strides, &keys, old_keys.as_ref())?;
    let [z_step, a_step, v_step] = value.steps(
        read.offsets[2],
        read.v_strides,
        &values,
        old_values.as_ref(),
    )?;
    let strides = |step: u32, last: [u32; 2]| [0, step * 4, last[0], last[1]];
    let params = Params {
        offsets: [
            made.sides[0].offset,
            old_keys.map_or(read.offsets[1], |old| old.source * 4),
            old_values.map_or(read.offsets[2], |old| old.source * 4),
            0,
        ],
        q_strides: [0, x_head * read.rows, x_head, 0],
        k_strides: strides(k_step, [0, read.k_strides[3]]),
        v_strides: strides(v_step, [0, read.v_strides[3]]),
        c_offset: made.c_offset,
        s_offset: made.s_offset,
        u_strides: [0, u_head, made.sides[1].offset, 0],
        t_strides: strides(a_step, [values.source * 4, 0]),
        caches: [read.offsets[1] / 4, w_step, read.offsets[2] / 4, z_step],
        ..read
    };
    let grid = grid(&params, writers(&spec, &params));
    if !device.has_room(&spec) {
        return None;
    }
    let caches = match (b, e) {
        (Some(b), Some(e)) => [b, e],
        _ => [w, z],
    };
    let new = [w, z].into_iter().filter(|_| b.is_some());
    let reads = [c, out, s, u, a];
    let operands = [x].into_iter().chain(caches).chain(reads).chain(new);
    device.op(spec, operands.cloned(), &params, grid).ok()
}

/// The stride of a side along the heads of all batches, if they have one, and all rows the same angles.
fn along_heads(made: &QkParams, side: usize) -> Option<u32> {
    let Side {
        n, dims, strides, ..
    } = made.sides[side];
    let along = if dims[1] == 1 { 1 } else { 2 };
    let [own, batch, step] = [dims[0] * dims[1], strides[0], strides[along]];
    let same =
        |at: usize, size: u32| size == 1 || made.c_strides[at] == 0 && made.s_strides[at] == 0;
    let batches = n.checked_div(made.head_dim * own)?;
    let one_step = dims.contains(&1) && same(along, own) && same(0, batches);
    match (batches, own) {
        _ if !one_step => None,
        (1, _) => Some(step),
        (_, 1) => Some(batch),
        _ => (batch == own * step).then_some(step),
    }
}

/// A cache of keys or values: `old` rows of `row` quads of each matrix, and a new one.
#[derive(Clone, Copy)]
struct Cache {
    matrices: u32,
    kv_heads: u32,
    row: u32,
    old: u32,
}

impl Cache {
    /// The quads between two matrices of the cache, of the newest rows and of the old ones where they are copied from, if the attention
    /// reads both where the copies put them. Heads come before keys, or, if values were transposed (Qwen2), keys before heads.
    fn steps(
        &self,
        offset: u32,
        strides: [u32; 4],
        newest: &Part,
        old: Option<&Part>,
    ) -> Option<[u32; 3]> {
        let matrix = match (self.matrices / self.kv_heads, self.kv_heads) {
            (_, 1) => strides[0],
            (1, _) => strides[1],
            (_, heads) if strides[0] == heads * strides[1] => strides[1],
            _ => return None,
        };
        let [matrix, key] = [matrix / 4, strides[3] / 4];
        let step = |part: &Part, rows: u32| {
            let one_run = part.n == part.run;
            let fits = match one_run {
                true => {
                    (self.matrices == 1 || matrix == self.row)
                        && (rows == 1 || key == self.matrices * self.row)
                }
                false => {
                    (part.run, part.place_stride) == (rows * self.row, matrix)
                        && (rows == 1 || key == self.row)
                }
            };
            let step = if one_run { matrix } else { part.source_stride };
            (fits && part.n == self.matrices * rows * self.row).then_some(step)
        };
        let old_step = match old {
            Some(old) if old.place * 4 == offset => step(old, self.old)?,
            Some(_) => return None,
            None => matrix,
        };
        let follows = newest.place * 4 == offset + self.old * strides[3];
        let steps = [matrix, step(newest, 1)?, old_step];
        follows.then_some(steps)
    }
}
