//! A KV cache that gets longer by a row becomes a prefix of a growable value: the attention of the next token adds its row there, where
//! it would copy all rows before it. Runs after `rope_attention`. Bit for bit.

use std::sync::Arc;

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::fusion::{attention, concat, rope_attention, rope_kv_cache, rope_qk};
use crate::kernel::attention::flash_decode::grid;
use crate::kernel::attention::flash_decode_coop::ROPE_FLASH_DECODE_COOP;
use crate::kernel::attention::plan::Params;
use crate::kernel::attention::rope_flash_decode::{in_place, writers, ROPE_FLASH_DECODE};
use crate::memory::buffer::Value;
use crate::memory::growable::{Growable, Prefix, Rows};
use crate::recorder::gpu::Gpu;

pub(crate) const RULE: Rule = Rule {
    name: "growing_cache",
    about: "`rope_flash_decode` that copies the KV caches of the last token: it adds a row to them, in memory with room for more",
    enabled: Enabled::OnGpu,
    exact: Exact::Always,
    needs: &[
        &attention::RULE,
        &rope_qk::RULE,
        &concat::RULE,
        &rope_kv_cache::RULE,
        &rope_attention::RULE,
    ],
    at: &[&ROPE_FLASH_DECODE, &ROPE_FLASH_DECODE_COOP],
    apply: Apply::Batch(Scan::Due, find),
};

/// The operands of [`ROPE_FLASH_DECODE`]: q, k, v, c, y, s, u, t, w, z. These are the first of the old caches and of the new ones.
const OLD: usize = 1;
const NEW: usize = 8;

/// The op at a place, if nothing else in the batch writes its caches.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let mut params: Params = op.params();
    let cache = |i: usize| {
        let [old, new] = [&op.operands[OLD + i], &op.operands[NEW + i]];
        let fresh = graph.writer(&new.0) == Some(at) && !graph.is_written(&old.0);
        let quad = 4 * op.spec.dtype(OLD).size() as u64;
        let cache = Cache::of(&params, i, [old, new], quad)?;
        fresh.then_some(cache)
    };
    let caches = [cache(0)?, cache(1)?];
    let (mut spec, mut operands) = (op.spec.clone(), op.operands.clone());
    let grown = caches
        .each_ref()
        .map(|c| c.old.clone().filter(Prefix::may_grow));
    let grown = match grown {
        [Some(keys), Some(values)] if !Arc::ptr_eq(&keys.of, &values.of) => {
            spec = in_place(&spec)?;
            operands.truncate(NEW);
            [keys.of, values.of]
        }
        _ => {
            let new = |c: &Cache| Growable::new(&device.pool, c.rows, params.keys);
            let [keys, values] = [new(&caches[0])?, new(&caches[1])?];
            operands[NEW] = (keys.bound(), 0);
            operands[NEW + 1] = (values.bound(), 0);
            [keys, values]
        }
    };
    for (i, (cache, to)) in caches.iter().zip(&grown).enumerate() {
        if let Some(old) = &cache.old {
            operands[OLD + i] = (old.of.bound(), 0);
            cache.read(&mut params, i, &old.of);
        }
        params.caches[2 * i + 1] = cache.step(to);
    }
    let grid = grid(&params, writers(&spec, &params));
    let op = device.op(spec, operands, &params, grid).ok()?;
    let rows = params.keys;
    let prefixes = caches
        .iter()
        .zip(grown)
        .map(|(cache, of)| (cache.new.clone(), Prefix { of, rows }));
    Some(Rewrite::new(&[at], at, [op]).with_prefixes(prefixes))
}

/// A cache of keys or values, before and after the op.
struct Cache<'a> {
    new: &'a Value,
    /// Set if the old one is a prefix.
    old: Option<Prefix>,
    rows: Rows,
    /// Quads of a key, and between those of two matrices of the new cache.
    row: u32,
    step: u32,
}

impl<'a> Cache<'a> {
    /// The keys (`i` is 0) or the values (1), if the caches are contiguous. `quad`: bytes of a quad.
    fn of(params: &Params, i: usize, [old, new]: [&'a (Value, u64); 2], quad: u64) -> Option<Self> {
        let (columns, strides) = match i {
            0 => (params.head_dim, params.k_strides),
            _ => (params.v_dim, params.v_strides),
        };
        let (row, key) = (columns / 4, strides[3] / 4);
        let [first, step] = [params.caches[2 * i], params.caches[2 * i + 1]];
        let (matrices, keys) = (params.matrices, params.keys);
        // Heads come before keys, or keys before heads.
        let before = key == row && (matrices == 1 || step == keys * row);
        let one_row = quad * u64::from(row);
        let (matrices, row_bytes) = match before {
            true => (matrices, one_row),
            false => (1, one_row * u64::from(matrices)),
        };
        let rows = Rows {
            matrices,
            row_bytes,
        };
        let fits = before || key == params.matrices * row && step == row;
        let whole = (first, new.1, new.0.bytes()) == (0, 0, rows.bytes(keys));
        let cache = Cache {
            new: &new.0,
            old: old.0.prefix(),
            rows,
            row,
            step,
        };
        let known = cache.old.as_ref().is_none_or(|prefix| {
            let from = strides[1] / 4;
            let there = params.matrices == 1 || from == if before { (keys - 1) * row } else { row };
            (prefix.of.rows, prefix.rows + 1) == (rows, keys)
                && params.offsets[1 + i] == 0
                && old.1 == 0
                && there
        });
        (fits && whole && known).then_some(cache)
    }

    /// Quads between two matrices of a growable value.
    fn step(&self, of: &Growable) -> u32 {
        match self.rows.matrices {
            1 => self.step,
            _ => of.capacity * self.row,
        }
    }

    /// Reads the old rows from a growable value.
    fn read(&self, params: &mut Params, i: usize, of: &Growable) {
        let strides = match i {
            0 => &mut params.k_strides,
            _ => &mut params.v_strides,
        };
        strides[1] = 4 * self.step(of);
    }
}
