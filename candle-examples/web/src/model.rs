//! From a model's files to what it is and what it needs, and to a model that runs.

use std::io::{Read, Seek};
use std::path::Path;

use candle_core::{DType, Device};
use candle_examples::checkpoint::{self, Shards};
use candle_examples::conversation::Conversation;
use candle_examples::embed::{self, Embedder};
use candle_examples::generate::{Causal, Writer};
use candle_examples::gguf::{Gguf, Source};
use candle_examples::llama2c::Checkpoint;
use candle_examples::model::{self, Model};
use candle_examples::needs::Needs;
use candle_examples::template::Template;
use candle_examples::tokenizer::{self, Tokenizer};
use candle_examples::Error;
use candle_nn::VarBuilder;
use candle_transformers::models::{bert, llama};
use serde::Serialize;
use serde_json::Value;

use crate::source::{JsFiles, Reader};

type Result<T> = candle_examples::Result<T>;

/// For errors.
const PATH: &str = "the model";

/// The file that has a chat template of its own, in newer checkpoints.
const TEMPLATE: &str = "chat_template.jinja";

/// A model that generates or embeds text.
pub enum Loaded {
    Generator(Generator),
    Embedder(Box<Embedder>),
}

/// A text model continues text; a chat model has a conversation and answers.
pub struct Generator {
    pub network: Box<dyn Causal>,
    pub tokenizer: Tokenizer,
    pub ends: Vec<u32>,
    pub context: usize,
    pub conversation: Option<Conversation>,
}

impl Generator {
    pub fn parts<'a>(
        &'a mut self,
        device: &'a Device,
    ) -> (Writer<'a>, &'a mut Option<Conversation>) {
        let writer = Writer {
            model: &mut *self.network,
            tokenizer: &self.tokenizer,
            ends: &self.ends,
            context: self.context,
            device,
        };
        (writer, &mut self.conversation)
    }

    fn from_model(loaded: model::Loaded, conversation: Option<Conversation>) -> Self {
        Self {
            network: Box::new(loaded.model),
            tokenizer: loaded.tokenizer,
            ends: loaded.ends,
            context: loaded.context,
            conversation,
        }
    }
}

/// What a model is, and what it needs on a device.
#[derive(Serialize)]
pub struct Facts {
    pub format: &'static str,
    /// `chat`, `text` or `embed`.
    pub kind: &'static str,
    pub name: Option<String>,
    pub architecture: String,
    pub parameters: f64,
    pub context: usize,
    /// Bytes of the weights on the device, of their largest tensor, and of the KV cache of one token.
    pub weights: f64,
    pub largest: f64,
    pub per_token: f64,
}

/// An open model, of which only the metadata has been read.
pub enum Opened {
    Gguf(Box<Gguf>, Option<Template>, Tokenizer),
    Llama2c(Box<Checkpoint<Reader>>, Tokenizer),
    Llama(Box<Dense>),
    Bert(Box<bert::Config>, Box<tokenizers::Tokenizer>, Shards),
}

/// A LLaMA of safetensors files.
pub struct Dense {
    config: llama::Config,
    dtype: DType,
    tokenizer: Tokenizer,
    template: Option<Template>,
    ends: Vec<u32>,
    shards: Shards,
}

fn bad(reason: &str) -> Error {
    Error::Checkpoint {
        path: PATH.into(),
        reason: reason.into(),
    }
}

fn bytes(files: &JsFiles, name: &str) -> Result<Option<Vec<u8>>> {
    let read = files.file(name).map(|file| Reader::new(file).all());
    read.transpose().map_err(Error::io(name))
}

fn required(files: &JsFiles, name: &'static str) -> Result<Vec<u8>> {
    let missing = || Error::Missing {
        what: "a file that safetensors weights need beside them",
        path: name.into(),
    };
    bytes(files, name)?.ok_or_else(missing)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Value> {
    let failed = |e: serde_json::Error| Error::Checkpoint {
        path: name.into(),
        reason: e.to_string(),
    };
    serde_json::from_slice(bytes).map_err(failed)
}

impl Opened {
    /// Reads the metadata of the files.
    pub fn new(files: &JsFiles, device: &Device) -> Result<Self> {
        let path = Path::new(PATH);
        let mut weights: Vec<_> = files.weights().into_iter().map(Reader::new).collect();
        if let Some(tokenizer) = bytes(files, "tokenizer.bin")? {
            let weights = weights.pop().ok_or_else(|| bad("no file has weights"))?;
            let tokenizer = Tokenizer::llama2c(Path::new("tokenizer.bin"), &tokenizer)?;
            let size = weights.size();
            let checkpoint = Checkpoint::open(path, weights, size)?;
            return Ok(Self::Llama2c(Box::new(checkpoint), tokenizer));
        }
        let mut magic = [0; 4];
        let first = weights.first_mut();
        let first =
            first.ok_or_else(|| bad("no file has weights: open a .gguf or .safetensors"))?;
        let read = first.read_exact(&mut magic);
        read.map_err(|_| bad("the file is too short for a model"))?;
        first.rewind().map_err(Error::io(path))?;
        if &magic == b"GGUF" {
            if weights.len() > 1 {
                return Err(bad("Candle cannot read split GGUF files: merge them first"));
            }
            let weights = weights.remove(0);
            let mut file = Gguf::read(path, weights)?;
            if file.suits_f32(device) {
                file = file.unpacked();
            }
            let tokenizer = Tokenizer::from_gguf(&file)?;
            let template = match file.template(&tokenizer, None) {
                Err(Error::NoTemplate { .. }) => None,
                template => Some(template?),
            };
            return Ok(Self::Gguf(Box::new(file), template, tokenizer));
        }
        Self::safetensors(files, weights, device)
    }

    fn safetensors(files: &JsFiles, weights: Vec<Reader>, device: &Device) -> Result<Self> {
        let source = |reader| Box::new(reader) as Box<dyn Source>;
        let sources = weights.into_iter().map(source).collect();
        let shards = Shards::open(Path::new(PATH), sources)?;
        let name = "config.json";
        let config = required(files, name)?;
        let json = parse(name, &config)?;
        let tokenizer = required(files, "tokenizer.json")?;
        let path = Path::new("tokenizer.json");
        if json["model_type"] == "bert" {
            let config = embed::parse_config(Path::new(name), &config)?;
            let tokenizer = tokenizer::parse(path, &tokenizer)?;
            return Ok(Self::Bert(Box::new(config), Box::new(tokenizer), shards));
        }
        let tokenizer = Tokenizer::json(path, &tokenizer)?;
        let mut ends = checkpoint::end_ids(&json);
        if let Some(bytes) = bytes(files, "generation_config.json")? {
            ends.extend(checkpoint::end_ids(&parse(
                "generation_config.json",
                &bytes,
            )?));
        }
        if ends.is_empty() {
            ends = tokenizer.ends();
        }
        let (config, stored) = checkpoint::parse_config(Path::new(name), json)?;
        tokenizer.check_fits(config.vocab_size)?;
        let dtype = match stored {
            Some(DType::BF16) if !device.is_cpu() && !device.supports_bf16() => DType::F16,
            Some(dtype) if !device.is_cpu() => dtype,
            _ => DType::F32,
        };
        Ok(Self::Llama(Box::new(Dense {
            template: template(files)?,
            config,
            dtype,
            tokenizer,
            ends,
            shards,
        })))
    }

    /// What the model is, and what it needs on `device`.
    pub fn facts(&self, device: &Device) -> Result<Facts> {
        let kind = |template: &Option<Template>| match template {
            Some(_) => "chat",
            None => "text",
        };
        let (format, kind, name, architecture, parameters, context, needs) = match self {
            Self::Gguf(file, template, _) => {
                let parameters = file.f32_bytes() as f64 / 4.;
                let name = file.text("general.name").map(str::to_string);
                let architecture = file.text("general.architecture").unwrap_or_default();
                let (kind, context) = (kind(template), file.context()?);
                let mut needs = file.needs();
                if file.suits_f32(device) {
                    // It is dequantized when it is loaded.
                    needs.weights = file.f32_bytes();
                }
                ("gguf", kind, name, architecture, parameters, context, needs)
            }
            Self::Llama2c(checkpoint, _) => {
                let needs = checkpoint.needs(DType::F32);
                let (parameters, context) = (needs.weights as f64 / 4., checkpoint.config.seq_len);
                (
                    "llama2c", "text", None, "llama2c", parameters, context, needs,
                )
            }
            Self::Llama(dense) => {
                let needs = checkpoint::needs(&dense.config, dense.dtype);
                let parameters = needs.weights as f64 / dense.dtype.size_in_bytes() as f64;
                let context = dense.config.max_position_embeddings;
                let kind = kind(&dense.template);
                (
                    "safetensors",
                    kind,
                    None,
                    "llama",
                    parameters,
                    context,
                    needs,
                )
            }
            Self::Bert(config, _, shards) => {
                let elements = || shards.sizes().map(|(elements, _)| elements as u64);
                let needs = Needs::of(elements().map(|n| n * 4), 0);
                let parameters = elements().sum::<u64>() as f64;
                let context = config.max_position_embeddings;
                (
                    "safetensors",
                    "embed",
                    None,
                    "bert",
                    parameters,
                    context,
                    needs,
                )
            }
        };
        Ok(Facts {
            format,
            kind,
            name,
            architecture: architecture.to_string(),
            parameters,
            context,
            weights: needs.weights as f64,
            largest: needs.largest as f64,
            per_token: needs.per_token as f64,
        })
    }

    /// Reads the weights to `device`.
    pub fn load(self, device: &Device) -> Result<Loaded> {
        let generator = match self {
            Self::Gguf(file, template, tokenizer) => {
                let loaded = file.load(tokenizer, device)?;
                let begin = loaded.begin;
                Generator {
                    network: Box::new(loaded.network),
                    tokenizer: loaded.tokenizer,
                    ends: loaded.ends,
                    context: loaded.context,
                    conversation: template.map(|t| Conversation::new(t, begin, None)),
                }
            }
            Self::Llama2c(checkpoint, tokenizer) => {
                let loaded = model::Loaded::llama2c(*checkpoint, tokenizer, None, device)?;
                Generator::from_model(loaded, None)
            }
            Self::Llama(dense) => {
                let Dense {
                    config,
                    dtype,
                    tokenizer,
                    template,
                    ends,
                    mut shards,
                } = *dense;
                let weights = shards.load_all(&checkpoint::tensors(&config), dtype, device)?;
                let vb = VarBuilder::from_tensors(weights, dtype, device);
                let cache = llama::Cache::new(true, dtype, &config, device)?;
                let loaded = model::Loaded {
                    model: Model::llama(llama::Llama::load(vb, &config)?, cache),
                    tokenizer,
                    dtype,
                    context: config.max_position_embeddings,
                    ends,
                };
                let conversation = template.map(|t| Conversation::new(t, None, None));
                Generator::from_model(loaded, conversation)
            }
            Self::Bert(config, tokenizer, mut shards) => {
                let names = shards.names();
                let load = |name: String| {
                    let tensor = shards.load(&name, DType::F32, device)?;
                    Ok((name, tensor))
                };
                let weights = names.into_iter().map(load).collect::<Result<_>>()?;
                let vb = VarBuilder::from_tensors(weights, DType::F32, device);
                let path = Path::new("tokenizer.json");
                let embedder = Embedder::new(&config, (path, *tokenizer), vb, device)?;
                return Ok(Loaded::Embedder(Box::new(embedder)));
            }
        };
        Ok(Loaded::Generator(generator))
    }
}

/// The chat template of a checkpoint, with the names of its tokens.
fn template(files: &JsFiles) -> Result<Option<Template>> {
    let name = "tokenizer_config.json";
    let config = match bytes(files, name)? {
        Some(bytes) => parse(name, &bytes)?,
        None => Value::Null,
    };
    let own = bytes(files, TEMPLATE)?;
    let own = own.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let given = config["chat_template"].as_str().map(str::to_string);
    let Some(source) = own.or(given) else {
        return Ok(None);
    };
    let token = |name: &str| {
        let token = &config[name];
        let text = token.as_str().or(token["content"].as_str());
        text.unwrap_or_default().to_string()
    };
    Template::new(&source, &token("bos_token"), &token("eos_token")).map(Some)
}
