//! New leaves: their values, and views of them.

use candle_core::{DType, Device, Tensor};

use crate::draw::Drawer;
use crate::graph::{Expect, Source};
use crate::input::{tensor, Fill};
use crate::ops::Wants;

impl Drawer {
    fn fill(&mut self) -> Fill {
        match self.wants {
            Wants::Open | Wants::Calm => {
                self.one_of(&[Fill::Small, Fill::Small, Fill::Positive, Fill::Ties])
            }
            Wants::Normal => self.one_of(&[Fill::Normal, Fill::Small, Fill::Positive]),
            Wants::Any => self.one_of(&[Fill::Special, Fill::Wide, Fill::Small, Fill::Ties]),
        }
    }

    pub fn leaf(&mut self, t: Tensor) -> usize {
        self.add(Source::Leaf(t.clone()), Expect::Value, Some(t), None)
    }

    fn filled(&mut self, dtype: DType, dims: &[usize]) -> Option<usize> {
        let (fill, seed) = (self.fill(), self.rng.next());
        Some(self.leaf(tensor(dtype, dims, seed, fill).ok()?))
    }

    /// A new leaf, through some view.
    pub fn viewed(&mut self, dtype: DType, dims: &[usize]) -> Option<usize> {
        let rank = dims.len();
        let mut base = dims.to_vec();
        if rank == 0 || self.chance(40) {
            return self.filled(dtype, dims);
        }
        let (at, other) = (self.between(0, rank - 1), self.between(0, rank - 1));
        match self.rng.below(5) {
            0 => {
                base.swap(at, other);
                let leaf = self.filled(dtype, &base)?;
                self.call("transpose", vec![leaf], vec![at, other])
            }
            1 => {
                let (before, after) = (self.between(0, 4), self.between(0, 3));
                base[at] += before + after;
                let leaf = self.filled(dtype, &base)?;
                self.call("narrow", vec![leaf], vec![at, before, dims[at]])
            }
            2 => {
                base[at] = 1;
                base[other] = 1;
                let leaf = self.filled(dtype, &base)?;
                self.call("broadcast_as", vec![leaf], dims.to_vec())
            }
            3 => {
                let last = self.between(0, 1);
                base.push(2);
                let leaf = self.filled(dtype, &base)?;
                let column = self.call("narrow", vec![leaf], vec![rank, last, 1])?;
                self.call("squeeze", vec![column], vec![rank])
            }
            _ => {
                let leaf = self.filled(dtype, &base)?;
                self.call("flip", vec![leaf], vec![at])
            }
        }
    }

    /// Ids below `size`; they may repeat, since writes happen in the order of the ids.
    pub fn ids(&mut self, dims: &[usize], size: usize) -> Option<usize> {
        let dtype = self.one_of(&[DType::U8, DType::U32, DType::I64]);
        let n: usize = dims.iter().product();
        if n > 0 && size == 0 {
            return None;
        }
        // Sometimes through a view, like other leaves.
        let across = dims.len() > 1 && self.chance(40);
        let mut base = dims.to_vec();
        if across {
            base.swap(0, 1);
        }
        // The greatest u8 means "no row".
        let below = if dtype == DType::U8 {
            size.min(255)
        } else {
            size
        } as u64;
        let ids: Vec<i64> = (0..n).map(|_| self.rng.below(below) as i64).collect();
        let t = Tensor::from_vec(ids, base, &Device::Cpu).ok()?;
        let leaf = self.leaf(t.to_dtype(dtype).ok()?);
        match across {
            true => self.call("transpose", vec![leaf], vec![0, 1]),
            false => Some(leaf),
        }
    }
}
