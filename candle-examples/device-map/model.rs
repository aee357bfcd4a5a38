//! A LLaMA whose layers are distributed over several devices. Hidden states pass between devices through the host.

use candle_core::{Device, Tensor};
use candle_examples::generate::Causal;
use candle_examples::layers::{Cache, Cut, Head, Projection, Share, Stage, Weights};
use candle_examples::{Error, Result};
use candle_transformers::models::llama::Config;
use std::collections::HashMap;
use std::ops::Range;

/// A device and its range of layers.
pub struct Part {
    pub device: Device,
    pub layers: Range<usize>,
}

/// The device of a tensor by its name: the first device for what precedes the layers, the last for what follows them.
pub fn place<'a>(parts: &'a [Part], name: &str) -> &'a Device {
    let layer = name.strip_prefix("model.layers.");
    let layer = layer.and_then(|rest| rest.split('.').next()?.parse().ok());
    let of = |layer: usize| parts.iter().find(|part| part.layers.contains(&layer));
    let part = match layer {
        Some(layer) => of(layer),
        None if name.starts_with("model.embed_tokens") => parts.first(),
        None => parts.last(),
    };
    part.map_or(&Device::Cpu, |part| &part.device)
}

/// Loaded weights by name.
struct Loaded(HashMap<String, Tensor>);

impl Loaded {
    fn get(&self, name: &str) -> Result<Tensor> {
        let what = || Error::Unsupported {
            what: format!("a model without {name}"),
        };
        let found = self.0.get(&format!("{name}.weight"));
        found.cloned().ok_or_else(what)
    }
}

impl Weights for Loaded {
    fn matrix(&mut self, name: &str, _: (usize, usize), _: &Cut) -> Result<Projection> {
        Ok(Projection::dense(self.get(name)?))
    }

    fn vector(&mut self, name: &str, _: usize) -> Result<Tensor> {
        self.get(name)
    }
}

pub struct Split {
    embed: Projection,
    first: Device,
    stages: Vec<(Stage, Cache)>,
    head: Head,
    last: Device,
}

impl Split {
    /// Builds the model from weights that are on the devices that [`place`] gives, under the names of `models::llama`.
    pub fn new(
        config: Config,
        adjacent: bool,
        weights: HashMap<String, Tensor>,
        parts: &[Part],
    ) -> Result<Self> {
        let mut weights = Loaded(weights);
        let embed = weights.get("model.embed_tokens")?;
        let norm = weights.get("model.norm")?;
        let (dtype, first, last) = (norm.dtype(), embed.device().clone(), norm.device().clone());
        let mut stages = Vec::new();
        for part in parts {
            let (share, at) = (
                Share::layers(&config, part.layers.clone()),
                (dtype, &part.device),
            );
            let stage = Stage::load(&config, adjacent, &share, &mut weights, at)?;
            let cache = stage.cache();
            stages.push((stage, cache));
        }
        if config.tie_word_embeddings {
            let name = "model.embed_tokens.weight".to_string();
            weights.0.insert(name, embed.to_device(&last)?);
        }
        Ok(Split {
            embed: Projection::dense(embed),
            first,
            stages,
            head: Head::load(&config, &Cut::Whole, &mut weights)?,
            last,
        })
    }
}

impl Causal for Split {
    fn logits(&mut self, ids: &Tensor, position: usize) -> Result<Tensor> {
        let mut x = self.embed.rows(&ids.squeeze(0)?.to_device(&self.first)?)?;
        for (stage, cache) in &mut self.stages {
            // Goes through the host if the devices differ.
            x = x.to_device(stage.device())?;
            x = stage.forward(x, position, cache, &mut Ok)?;
        }
        Ok(self.head.logits(&x.to_device(&self.last)?)?)
    }
}
