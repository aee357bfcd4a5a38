//! The device of each rank: with `--adapter auto`, rank r of a node takes adapter r of that node.

use crate::world::World;
#[cfg(any(feature = "webgpu", test))]
use anyhow::bail;
use anyhow::Result;
use candle_core::Device;
use candle_examples::device::{DeviceArgs, DeviceKind};

/// Opens the device of this rank.
pub fn open(args: &DeviceArgs, world: &World) -> Result<Device> {
    let mut own = args.clone();
    let auto = args.adapter.as_deref().is_none_or(|name| name == "auto");
    let webgpu = matches!(args.device, DeviceKind::Webgpu | DeviceKind::Auto);
    if !auto || !webgpu {
        return Ok(own.open()?);
    }
    // Another selection wins.
    let selected = std::env::var("CANDLE_WEBGPU_ADAPTER").is_ok_and(|name| !name.trim().is_empty());
    own.adapter = match selected {
        true => None,
        false => adapter(world.local)?,
    };
    Ok(own.open()?)
}

#[cfg(feature = "webgpu")]
fn adapter(local: (usize, usize)) -> Result<Option<String>> {
    let adapters = candle_core::webgpu_backend::runtime::adapters()?;
    let each = adapters
        .iter()
        .filter(|adapter| adapter.same_gpu_as.is_none());
    let kinds: Vec<_> = each.map(|a| (a.ordinal, a.kind == "software")).collect();
    Ok(choose(&kinds, local)?.map(|ordinal| ordinal.to_string()))
}

#[cfg(not(feature = "webgpu"))]
fn adapter(_: (usize, usize)) -> Result<Option<String>> {
    Ok(None)
}

/// The ordinal for a rank among `adapters`, given as (ordinal, whether it is a software adapter). Only software adapters are shared.
#[cfg(any(feature = "webgpu", test))]
fn choose(adapters: &[(usize, bool)], (rank, ranks): (usize, usize)) -> Result<Option<usize>> {
    let gpus: Vec<usize> = adapters
        .iter()
        .filter(|(_, software)| !software)
        .map(|(ordinal, _)| *ordinal)
        .collect();
    match gpus.get(rank) {
        Some(ordinal) => Ok(Some(*ordinal)),
        None if gpus.is_empty() => Ok(adapters.first().map(|(ordinal, _)| *ordinal)),
        None => bail!(
            "no adapter is left for rank {rank} of {ranks} of this node, which has {}: start fewer ranks, or share one with `--adapter 0`",
            gpus.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_of_a_node_has_its_own_gpu() {
        let node = [(0, false), (1, false), (2, true)];
        assert_eq!(choose(&node, (0, 2)).ok(), Some(Some(0)));
        assert_eq!(choose(&node, (1, 2)).ok(), Some(Some(1)));
        let message = choose(&node, (2, 3)).map_err(|e| e.to_string());
        assert!(message.is_err_and(|e| e.contains("rank 2 of 3") && e.contains("has 2")));
        assert_eq!(choose(&[(0, true)], (3, 4)).ok(), Some(Some(0)));
        assert_eq!(choose(&[], (0, 1)).ok(), Some(None));
    }
}
