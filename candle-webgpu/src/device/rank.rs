//! The order of adapters. Drivers list a GPU once for each backend (Vulkan and DX12 on Windows), or several times for one backend (two
//! Vulkan drivers): the best of these ranks as the GPU, the others behind all GPUs.

use std::cmp::Reverse;

use wgpu::{Backend, DeviceType};

/// The facts of an adapter that decide its rank.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub kind: DeviceType,
    pub backend: Backend,
    pub driver: String,
    /// PCI ids of vendor and device; 0 if unknown.
    pub ids: (u32, u32),
    pub name: String,
    /// How many of the optional features that Candle uses it has.
    pub features: usize,
}

/// A place in the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the adapter in the list that was ranked.
    pub index: usize,
    /// Ordinal of the adapter that ranks as the same GPU, if it is another.
    pub same_as: Option<usize>,
}

/// Best first.
const KINDS: [(DeviceType, &str); 5] = [
    (DeviceType::DiscreteGpu, "discrete"),
    (DeviceType::IntegratedGpu, "integrated"),
    (DeviceType::VirtualGpu, "virtual"),
    (DeviceType::Other, "other"),
    (DeviceType::Cpu, "software"),
];

fn kind_rank(kind: DeviceType) -> usize {
    let at = KINDS.iter().position(|(of, _)| *of == kind);
    at.unwrap_or(KINDS.len())
}

pub(crate) fn kind_name(kind: DeviceType) -> &'static str {
    KINDS[kind_rank(kind).min(KINDS.len() - 1)].1
}

fn backend_rank(backend: Backend) -> u8 {
    match backend {
        Backend::Vulkan => 0,
        Backend::Metal => 1,
        Backend::Dx12 => 2,
        _ => 3,
    }
}

fn same_model(a: &Facts, b: &Facts) -> bool {
    let known = a.ids.1 != 0 && b.ids.1 != 0;
    (known && a.ids == b.ids) || a.name.eq_ignore_ascii_case(&b.name)
}

/// Groups adapters by GPU: for each adapter, the index of the first one of its GPU. A driver lists a GPU once, so adapters of one driver
/// are different GPUs, and the nth of a model by one driver is the nth of that model by another.
fn gpus(adapters: &[Facts]) -> Vec<usize> {
    let nth = |i: usize| {
        let of_driver = |b: &&Facts| {
            let a = &adapters[i];
            b.backend == a.backend && b.driver == a.driver && same_model(a, b)
        };
        adapters[..i].iter().filter(of_driver).count()
    };
    let same = |i: usize, j: usize| same_model(&adapters[i], &adapters[j]) && nth(i) == nth(j);
    let first = |i: usize| (0..i).find(|j| same(i, *j)).unwrap_or(i);
    (0..adapters.len()).map(first).collect()
}

/// The adapters from the best on: GPUs by kind, then the other adapters of these GPUs. Of one GPU's adapters, the one with the most
/// features is the best, then Vulkan, Metal, DX12; all else keeps wgpu's order.
pub(crate) fn ranked(adapters: &[Facts]) -> Vec<Place> {
    let gpus = gpus(adapters);
    let merit = |i: &usize| {
        let facts = &adapters[*i];
        (Reverse(facts.features), backend_rank(facts.backend), *i)
    };
    let best = |i: usize| {
        let same = (0..adapters.len()).filter(|j| gpus[*j] == gpus[i]);
        same.min_by_key(merit).unwrap_or(i)
    };
    let mut order: Vec<usize> = (0..adapters.len()).collect();
    order.sort_by_key(|&i| {
        let kind = kind_rank(adapters[best(i)].kind);
        (best(i) != i, kind, gpus[i], merit(&i))
    });
    let place = |&index: &usize| {
        let best = best(index);
        let ordinal = order.iter().position(|other| *other == best);
        let same_as = ordinal.filter(|_| best != index);
        Place { index, same_as }
    };
    order.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Backend::{Dx12, Vulkan};
    use DeviceType::{Cpu, DiscreteGpu, IntegratedGpu};

    fn facts(kind: DeviceType, backend: Backend, ids: (u32, u32), features: usize) -> Facts {
        Facts {
            kind,
            backend,
            driver: format!("{backend:?}"),
            ids,
            name: format!("{ids:?}"),
            features,
        }
    }

    /// Index and `same_as` of each place.
    fn places(adapters: &[Facts]) -> Vec<(usize, Option<usize>)> {
        let place = |place: Place| (place.index, place.same_as);
        ranked(adapters).into_iter().map(place).collect()
    }

    const BIG: (u32, u32) = (0x10de, 1);
    const SMALL: (u32, u32) = (0x8086, 2);
    const SOFT: (u32, u32) = (0x1414, 3);

    #[test]
    fn a_gpu_of_two_backends_ranks_once() {
        let list = [
            facts(IntegratedGpu, Vulkan, SMALL, 4),
            facts(DiscreteGpu, Vulkan, BIG, 6),
            facts(DiscreteGpu, Dx12, BIG, 3),
            facts(IntegratedGpu, Dx12, SMALL, 4),
            facts(Cpu, Dx12, SOFT, 2),
        ];
        let expected = [(1, None), (0, None), (4, None), (2, Some(0)), (3, Some(1))];
        assert_eq!(places(&list), expected);
    }

    #[test]
    fn more_features_rank_above_the_backend() {
        let list = [
            facts(DiscreteGpu, Vulkan, BIG, 3),
            facts(DiscreteGpu, Dx12, BIG, 4),
        ];
        assert_eq!(places(&list), [(1, None), (0, Some(0))]);
    }

    #[test]
    fn equal_cards_are_two_gpus() {
        let card = |backend| facts(DiscreteGpu, backend, BIG, 5);
        let four = [card(Vulkan), card(Vulkan), card(Vulkan), card(Vulkan)];
        assert_eq!(places(&four), [0, 1, 2, 3].map(|i| (i, None)));
        let twice = [card(Vulkan), card(Vulkan), card(Dx12), card(Dx12)];
        let expected = [(0, None), (1, None), (2, Some(0)), (3, Some(1))];
        assert_eq!(places(&twice), expected);
    }

    #[test]
    fn two_drivers_of_a_backend_list_one_gpu() {
        let mut other = facts(DiscreteGpu, Vulkan, BIG, 2);
        other.driver = "Dozen".into();
        let list = [other, facts(DiscreteGpu, Vulkan, BIG, 6)];
        assert_eq!(places(&list), [(1, None), (0, Some(0))]);
    }

    #[test]
    fn names_stand_in_for_missing_ids() {
        let mut list = [Vulkan, Dx12].map(|backend| facts(DiscreteGpu, backend, (0, 0), 1));
        assert_eq!(places(&list), [(0, None), (1, Some(0))]);
        list[0].name = "another".into();
        assert_eq!(places(&list), [(0, None), (1, None)]);
    }
}
