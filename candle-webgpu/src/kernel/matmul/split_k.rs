//! Split-K of a GEMM with cooperative matrices: tiles that would leave most of the adapter idle, all or those of a last wave, are divided
//! along k, and a second kernel adds up their parts. Recorded by the rule `split_k`.

use std::collections::HashSet;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::matmul::epilogue::{self, is_pair, Params, PAIR, PARAMS};
use crate::kernel::matmul::gemm_coop::{self, sizes, store, tile, GEMM_COOP, ROUND, THREADS};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::memory::buffer::Value;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::{Grid, Op, Operands};
use crate::shader::{write, Access, Binding, Kernel, Specialization, Text};

/// Added bindings: those of the matmul but its second matrix.
pub static GEMM_COOP_SUM: Kernel = Kernel {
    workgroup: THREADS,
    slots,
    ..kernel!("matmul", "gemm_coop_sum", Params::LAYOUT; read parts, write y)
};

/// What decides on the parts of a tile.
struct Costs {
    /// Workgroups that a large adapter executes at a time.
    at_once: u64,
    /// To begin and store a wave of parts and to load them again, in the time of a round along k with that many workgroups.
    wave: u32,
    /// The second kernel, likewise.
    sum: u32,
}

/// Tiles of 128 columns: two workgroups on each of the 132 multiprocessors of an NVIDIA H100 or H200, where a round takes 1.8 us.
const LARGE: Costs = Costs {
    at_once: 264,
    wave: 6,
    sum: 4,
};

/// Tiles of 64 columns: three workgroups, 0.8 us.
const SMALL: Costs = Costs {
    at_once: 396,
    wave: 4,
    sum: 3,
};

/// The most parts of a tile.
const MOST: u32 = 8;

/// A matmul whose last tiles are divided.
pub(crate) struct Split {
    /// Tiles that are not.
    whole: u32,
    /// Tiles that are, and the parts of each.
    divided: u32,
    parts: u32,
}

impl Costs {
    /// The parts of `tiles` tiles of so many rounds, on an adapter that executes `at_once` workgroups at a time; `None` where they are not
    /// faster.
    fn split(&self, tiles: u32, rounds: u32, at_once: u32) -> Option<Split> {
        let divided = tiles.checked_rem(at_once)?;
        let cost = |parts: &u32| {
            let waves = (divided * parts).div_ceil(at_once);
            waves * (rounds.div_ceil(*parts) + self.wave) + self.sum
        };
        let parts = (2..=MOST).min_by_key(cost)?;
        let split = Split {
            whole: tiles - divided,
            divided,
            parts,
        };
        (divided > 0 && cost(&parts) < rounds).then_some(split)
    }
}

impl Split {
    /// `None` where it is not faster.
    pub fn if_faster(device: &Gpu, spec: &Specialization, matmul: &MatmulParams) -> Option<Self> {
        let costs = if tile(spec).n == 128 { LARGE } else { SMALL };
        let at_once = u32::try_from(device.scaled(costs.at_once)).ok()?;
        let suits = matmul.batch == 1 && spec.value("WHOLE_K") == Some(1);
        let split = costs.split(matmul.groups, matmul.k / ROUND, at_once);
        split.filter(|split| suits && split.bytes(spec) <= device.binding_limit())
    }

    /// Size of the parts: a whole tile of f32 each.
    pub fn bytes(&self, spec: &Specialization) -> u64 {
        let tile = tile(spec);
        let parts = u64::from(self.divided) * u64::from(self.parts);
        parts * u64::from(tile.m * tile.n) * 4
    }

    /// The parameters of both kernels.
    pub fn params(&self, mut params: Params) -> Params {
        params.matmul.blocks = self.whole;
        params.matmul.rounds = self.parts;
        params
    }

    /// The grids of both kernels.
    pub fn grids(&self, spec: &Specialization) -> [Grid; 2] {
        let tile = tile(spec);
        let quads = self.divided * tile.m * tile.own(is_pair(spec)) / 4;
        let groups = self.whole + self.divided * self.parts;
        [groups, quads.div_ceil(THREADS)].map(|groups| Grid::Linear(groups.into()))
    }
}

/// Both kernels for a matmul.
pub(crate) fn specs(of: &Specialization) -> [Specialization; 2] {
    let parts = (DType::F32, Access::Raw);
    let multiply = of.clone().bind(write("parts"), parts.0, parts.1);
    let mut sum = Specialization::new(&GEMM_COOP_SUM, of.op, &[parts, of.operands[2]]);
    for (i, binding) in behind_y(of) {
        let (dtype, access) = of.operands[i];
        sum = sum.bind(*binding, dtype, access);
    }
    sum.steps = of.steps.clone();
    let pair = is_pair(of);
    [multiply, if pair { sum.variant(PAIR) } else { sum }]
}

/// The operands of both kernels, given those of the matmul.
pub(crate) fn operands(of: &Op, parts: Value) -> [Operands; 2] {
    let parts = (parts, 0);
    let multiply = of.operands.iter().chain([&parts]).cloned().collect();
    let more = behind_y(&of.spec).map(|(i, _)| &of.operands[i]);
    let sum = [&parts, &of.operands[2]].into_iter().chain(more);
    [multiply, sum.cloned().collect()]
}

/// The operands behind y that the second kernel reads, too: all but the second matrix of a pair.
fn behind_y(spec: &Specialization) -> impl Iterator<Item = (usize, &Binding)> {
    let bindings = spec.bindings().enumerate().skip(3);
    bindings.filter(|(_, binding)| binding.name != "c")
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let tile = tile(spec);
    sizes(tile, tile.own(is_pair(spec)), text);
    text.constants(&[("THREADS", THREADS)]);
    text.part(PARAMS);
    store(spec, "epilogue", text)
}

/// Both kernels for each tile, each kind of operands and each kind of epilogue.
pub fn catalogue() -> Vec<Specialization> {
    let mut taken = HashSet::new();
    let all = [gemm_coop::catalogue(), epilogue::catalogue()].concat();
    let whole = |spec: &&Specialization| spec.is_of(&GEMM_COOP) && spec.value("WHOLE_K") == Some(1);
    let mut made: Vec<_> = all
        .iter()
        .filter(whole)
        .filter(|spec| {
            let accesses = spec.operands.iter();
            let accesses = accesses.map(|(_, access)| std::mem::discriminant(access));
            let accesses: Vec<_> = accesses.collect();
            let [b, y] = [1, 2].map(|i| spec.dtype(i));
            taken.insert((spec.op, b, y, accesses, spec.steps.is_some()))
        })
        .flat_map(specs)
        .collect();
    let mut names = HashSet::new();
    made.retain(|spec| names.insert(spec.name()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matmuls of prompts of Llama models on an NVIDIA H200, by the figures of docs/kernels/gemm_coop.md.
    #[test]
    fn parts_fill_an_adapter() {
        let parts = |costs: Costs, tiles, rounds| {
            let split = costs.split(tiles, rounds, costs.at_once as u32);
            split.map(|split| [split.whole, split.divided, split.parts])
        };
        // A few tiles, nearly a wave of them, and more than a wave.
        assert_eq!(parts(LARGE, 16, 32), Some([0, 16, 8]));
        assert_eq!(parts(LARGE, 224, 64), None);
        assert_eq!(parts(LARGE, 352, 32), Some([264, 88, 3]));
        assert_eq!(parts(SMALL, 64, 32), Some([0, 64, 6]));
        assert_eq!(parts(SMALL, 176, 32), Some([0, 176, 2]));
        assert_eq!(parts(SMALL, 224, 64), Some([0, 224, 5]));
        assert_eq!(parts(SMALL, 352, 32), None);
        assert_eq!(parts(SMALL, 448, 64), Some([396, 52, 7]));
        // Full waves, a k of 1,024, and of 512.
        assert_eq!(parts(LARGE, 528, 32), None);
        assert_eq!(parts(SMALL, 20, 16), Some([0, 20, 8]));
        assert_eq!(parts(SMALL, 20, 8), None);
    }
}
