//! Parses `--devices webgpu:0,cpu`, and assigns layers to devices.

use candle_core::Device;
use candle_examples::Error;
use std::ops::Range;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cpu,
    Webgpu,
    Cuda,
    Metal,
}

/// One device of the list: `cpu`, `webgpu`, `webgpu:1`, `cuda:0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    kind: Kind,
    /// `None` without a number: the best adapter, or the one that the environment selects.
    ordinal: Option<usize>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (kind, ordinal) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number)),
            None => (text, None),
        };
        let kind = match kind {
            "cpu" if ordinal.is_none() => Kind::Cpu,
            "webgpu" => Kind::Webgpu,
            "cuda" => Kind::Cuda,
            "metal" => Kind::Metal,
            _ => return Err("not one of cpu, webgpu, webgpu:N, cuda:N, metal:N".into()),
        };
        let number = |n: &str| n.parse().map_err(|_| format!("`{n}` is no number"));
        let ordinal = ordinal.map(number).transpose()?;
        Ok(Place { kind, ordinal })
    }
}

/// Opens one device per place. A repeated place is a second device on the same adapter.
pub fn open(places: &[Place]) -> anyhow::Result<Vec<Device>> {
    let mut devices = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let again = places[..at].contains(place);
        devices.push(place.open(again)?);
    }
    Ok(devices)
}

impl Place {
    fn open(self, again: bool) -> anyhow::Result<Device> {
        let ordinal = self.ordinal.unwrap_or(0);
        Ok(match self.kind {
            Kind::Cpu => Device::Cpu,
            Kind::Webgpu => webgpu(self.ordinal, again)?,
            Kind::Cuda if !cfg!(feature = "cuda") => Err(Error::NotCompiled("cuda"))?,
            Kind::Cuda => Device::new_cuda(ordinal)?,
            Kind::Metal if !cfg!(feature = "metal") => Err(Error::NotCompiled("metal"))?,
            Kind::Metal => Device::new_metal(ordinal)?,
        })
    }
}

#[cfg(feature = "webgpu")]
fn webgpu(ordinal: Option<usize>, again: bool) -> anyhow::Result<Device> {
    use candle_core::webgpu_backend::runtime::{Device as Runtime, ADAPTER_VAR};
    let named = std::env::var(ADAPTER_VAR).unwrap_or_default();
    if let Some(number) = ordinal.filter(|_| !named.trim().is_empty()) {
        anyhow::bail!("{ADAPTER_VAR}={named} selects the adapter: use `webgpu`, or unset the variable to use `webgpu:{number}`");
    }
    let ordinal = ordinal.unwrap_or(0);
    if again {
        let runtime = Runtime::separate(ordinal).map_err(candle_core::Error::from)?;
        return Ok(Device::WebGpu(runtime.into()));
    }
    Ok(Device::new_webgpu(ordinal)?)
}

#[cfg(not(feature = "webgpu"))]
fn webgpu(_: Option<usize>, _: bool) -> anyhow::Result<Device> {
    Err(Error::NotCompiled("webgpu"))?
}

/// The layers of each device: as many as `asked` says, else an equal share, with the remainder on the first devices.
pub fn split(layers: usize, devices: usize, asked: &[usize]) -> anyhow::Result<Vec<Range<usize>>> {
    let even = |at: usize| layers / devices + usize::from(at < layers % devices);
    let counts: Vec<usize> = match asked {
        [] => (0..devices).map(even).collect(),
        _ => asked.to_vec(),
    };
    let given = counts.len();
    anyhow::ensure!(
        given == devices,
        "--layers has {given} numbers, --devices has {devices} devices"
    );
    let sum: usize = counts.iter().sum();
    anyhow::ensure!(
        sum == layers,
        "--layers adds up to {sum} layers, the model has {layers}"
    );
    anyhow::ensure!(
        !counts.contains(&0),
        "the model's {layers} layers leave none for one of {devices} devices"
    );
    let mut start = 0;
    let range = |n: usize| {
        start += n;
        start - n..start
    };
    Ok(counts.into_iter().map(range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let of = |text: &str| text.parse::<Place>();
        let webgpu = |ordinal| Place {
            kind: Kind::Webgpu,
            ordinal,
        };
        assert_eq!(of("webgpu"), Ok(webgpu(None)));
        assert_eq!(of(" webgpu:1"), Ok(webgpu(Some(1))));
        for bad in ["", "gpu", "cpu:0", "webgpu:", "webgpu:-1", "webgpu:one"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn splits() {
        let of = |layers, devices, asked: &[usize]| split(layers, devices, asked).ok();
        assert_eq!(of(7, 3, &[]), Some(vec![0..3, 3..5, 5..7]));
        assert_eq!(of(7, 2, &[1, 6]), Some(vec![0..1, 1..7]));
        for asked in [&[7][..], &[3, 3], &[0, 7], &[1, 2, 4]] {
            assert_eq!(of(7, 2, asked), None, "{asked:?}");
        }
        assert_eq!(of(2, 3, &[]), None);
    }
}
