//! The models that the page offers, by their catalogue names.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use candle_examples::catalogue::{Artifact, Source, CATALOGUE};
use candle_examples::fetch::{cache_dir, Fetcher};
use serde_json::{json, Value};

/// What the page shows about a model, beyond the catalogue's facts.
struct Offer {
    name: &'static str,
    title: &'static str,
    prompt: &'static str,
}

#[rustfmt::skip]
const OFFERS: &[Offer] = &[
    Offer { name: "stories15m",        title: "stories15M: children's stories", prompt: "Once upon a time" },
    Offer { name: "smollm2-135m-q4_1", title: "SmolLM2 135M: a chat, in 4 bits", prompt: "What is the capital of France?" },
];

/// The names that [`install`] accepts.
pub fn names() -> Vec<String> {
    OFFERS.iter().map(|offer| offer.name.to_string()).collect()
}

/// Downloads missing models, and puts the models and a list of them next to the page.
pub fn install(site: &Path, names: &[String]) -> Result<()> {
    let folder = site.join("models");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut fetcher = Fetcher::new(cache_dir())?;
    let list: Result<Vec<Value>> = names
        .iter()
        .map(|name| entry(&mut fetcher, &folder, name))
        .collect();
    let path = site.join("models.json");
    let text = serde_json::to_string_pretty(&list?)?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

fn entry(fetcher: &mut Fetcher, folder: &Path, name: &str) -> Result<Value> {
    let offer = OFFERS.iter().find(|offer| offer.name == name);
    let entry = CATALOGUE.iter().find(|entry| entry.name == name);
    let (Some(offer), Some(entry)) = (offer, entry) else {
        bail!(
            "unknown model {name}; available: {}",
            self::names().join(", ")
        );
    };
    let mut put = |artifact: &Artifact| -> Result<PathBuf> {
        let from = fetcher.get(artifact)?;
        link(&from, &folder.join(artifact.file))?;
        Ok(from)
    };
    let (kind, weights, tokenizer) = match &entry.source {
        Source::Llama2c {
            weights,
            tokenizers,
        } => {
            let tokenizer = tokenizers.iter().find(|t| t.file.ends_with(".bin"));
            ("text", weights, tokenizer)
        }
        Source::Gguf(weights) => ("chat", weights, None),
        Source::Hub(_) | Source::HubGguf(_) => {
            bail!("{name} is on the hub, from which this command does not download")
        }
    };
    let path = put(weights)?;
    if let Some(tokenizer) = tokenizer {
        put(tokenizer)?;
    }
    Ok(json!({
        "id": name,
        "name": offer.title,
        "kind": kind,
        "prompt": offer.prompt,
        "weights": format!("models/{}", weights.file),
        "tokenizer": tokenizer.map(|t| format!("models/{}", t.file)),
        "bytes": std::fs::metadata(&path)?.len(),
    }))
}

/// Creates a hard link if possible, else a copy.
fn link(from: &Path, to: &Path) -> Result<()> {
    let from = std::fs::canonicalize(from)?;
    if to.exists() {
        std::fs::remove_file(to)?;
    }
    if std::fs::hard_link(&from, to).is_err() {
        std::fs::copy(&from, to).with_context(|| to.display().to_string())?;
    }
    Ok(())
}
