//! The model of a run: its files, and for the parallel modes that split it, its config and weights.

use crate::args::{Args, Task};
use crate::items::hash;
use crate::source::{Blocks, Built, Safetensors};
use anyhow::{Context, Result};
use candle_core::{DType, Device};
use candle_examples::catalogue::{resolve, Source, Wanted};
use candle_examples::device::Precision;
use candle_examples::files::{self, default_dtype, words, Files};
use candle_examples::gguf::{self, Gguf};
use candle_examples::layers::Weights;
use candle_examples::random::{self, Preset, Quant};
use candle_examples::tokenizer::Tokenizer;
use candle_examples::{checkpoint, embed, llama2c};
use candle_transformers::models::llama::Config;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The files of the model of this run.
pub enum Model {
    Llama(Files),
    Gguf {
        path: PathBuf,
        tokenizer: Option<PathBuf>,
    },
    Bert(embed::Files),
    Random {
        shape: &'static Preset,
        quant: Option<&'static Quant>,
    },
}

/// Bytes of each file that its fingerprint covers, at its start and at its end. The start of a safetensors or GGUF file lists all tensors.
const SAMPLE: u64 = 1 << 20;

impl Model {
    /// Finds the files and downloads missing ones.
    pub fn locate(args: &Args) -> Result<Self> {
        if let Some(shape) = args.shape {
            let quant = args.quant;
            return Ok(Self::Random { shape, quant });
        }
        if args.task == Task::Embed {
            return Ok(Self::Bert(embed::locate(args.model())?));
        }
        // A hub id with a quantization, `org/name:Q4_0`, names a GGUF file.
        let quantized = |id: &str| id.rsplit_once(':').is_some_and(|(id, _)| id.contains('/'));
        let is_gguf = match resolve(args.model()) {
            Ok(Wanted::Entry(entry)) => {
                matches!(entry.source, Source::Gguf(_) | Source::HubGguf(_))
            }
            Ok(Wanted::Path(path)) => path.extension().is_some_and(|e| e == "gguf"),
            Ok(Wanted::Hub(repo)) => repo.to_lowercase().ends_with("-gguf"),
            Err(_) => quantized(args.model()),
        };
        if is_gguf {
            return Ok(Self::Gguf {
                path: gguf::locate(args.model())?,
                tokenizer: args.tokenizer.clone(),
            });
        }
        let tokenizer = args.tokenizer.as_deref();
        Ok(Self::Llama(files::locate(args.model(), tokenizer)?))
    }

    /// A hash of the model's files: their sizes, and the first and last MiB of each.
    pub fn fingerprint(&self) -> Result<u64> {
        let mut paths: Vec<&Path> = Vec::new();
        match self {
            Self::Llama(Files::Llama2c { weights, tokenizer }) => {
                paths.extend([&**weights, tokenizer]);
            }
            Self::Llama(Files::Folder { folder, tokenizer }) => {
                paths.extend([&*folder.config, tokenizer]);
                paths.extend(folder.generation.as_deref());
                paths.extend(folder.weights.iter().map(PathBuf::as_path));
            }
            Self::Gguf { path, tokenizer } => {
                paths.push(path);
                paths.extend(tokenizer.as_deref());
            }
            Self::Bert(files) => {
                paths.extend([&*files.config, &*files.tokenizer]);
                paths.extend(files.weights.iter().map(PathBuf::as_path));
            }
            Self::Random { shape, quant } => {
                let quant = quant.map_or("", |quant| quant.name);
                return Ok(hash(&[b"random", shape.name.as_bytes(), quant.as_bytes()]));
            }
        }
        let sampled = paths.iter().map(|path| sample(path));
        let hashes: Vec<u8> = sampled
            .map(|sampled| Ok(sampled?.to_le_bytes()))
            .collect::<Result<Vec<_>>>()?
            .concat();
        Ok(hash(&[&hashes]))
    }
}

fn sample(path: &Path) -> Result<u64> {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let (mut start, mut end) = (Vec::new(), Vec::new());
        (&mut file).take(SAMPLE).read_to_end(&mut start)?;
        file.seek(SeekFrom::Start(size.saturating_sub(SAMPLE)))?;
        file.take(SAMPLE).read_to_end(&mut end)?;
        std::io::Result::Ok(hash(&[&size.to_le_bytes(), &start, &end]))
    };
    read().with_context(|| path.display().to_string())
}

/// A model whose weights are loaded in parts.
pub struct Parts {
    pub config: Config,
    /// Whether RoPE rotates adjacent elements.
    pub adjacent: bool,
    pub weights: Box<dyn Weights>,
    /// None for random weights.
    pub tokenizer: Option<Tokenizer>,
    pub ends: Vec<u32>,
    /// The dtype of activations.
    pub dtype: DType,
    pub bytes: Bytes,
    /// Elements in a block of the weights' rows; columns can be cut between blocks.
    pub block: usize,
}

/// Sizes of weights in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub layer: u64,
    pub embedding: u64,
    pub head: u64,
}

impl Bytes {
    fn dense(config: &Config, dtype: DType) -> Self {
        let width = dtype.size_in_bytes() as u64;
        let size = |name: &str| {
            let tensors = checkpoint::tensors(config);
            let named = tensors
                .iter()
                .filter(|(tensor, _)| tensor.starts_with(name));
            let sizes = named.map(|(_, dims)| dims.iter().product::<usize>() as u64);
            sizes.sum::<u64>() * width
        };
        let embedding = size("model.embed_tokens");
        Self {
            layer: size("model.layers.0."),
            embedding,
            head: match config.tie_word_embeddings {
                true => embedding,
                false => size("lm_head"),
            },
        }
    }

    fn gguf(file: &Gguf) -> Self {
        let size = |name: &str| {
            let (dtype, dims) = file.tensor(name).ok()?;
            let count = dims.iter().product::<usize>();
            Some((count / dtype.block_size() * dtype.type_size()) as u64)
        };
        let matrices = [
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_output",
            "ffn_gate",
            "ffn_up",
            "ffn_down",
        ];
        let layer = matrices
            .iter()
            .map(|name| size(&format!("blk.0.{name}.weight")));
        let embedding = size("token_embd.weight").unwrap_or(0);
        Self {
            layer: layer.flatten().sum(),
            embedding,
            head: size("output.weight").unwrap_or(embedding),
        }
    }
}

impl Parts {
    /// Reads what describes the model; weights follow when they are asked for.
    pub fn open(model: &Model, dtype: Option<Precision>, device: &Device) -> Result<Self> {
        let asked = dtype.map(Precision::dtype);
        match model {
            Model::Llama(Files::Llama2c { weights, tokenizer }) => {
                let llama2c::Dense {
                    config,
                    weights,
                    tokenizer,
                } = llama2c::read(weights, tokenizer)?;
                let dtype = asked.unwrap_or(DType::F32);
                Ok(Self {
                    bytes: Bytes::dense(&config, dtype),
                    config,
                    adjacent: true,
                    weights: Box::new(Built {
                        builder: weights,
                        random: false,
                        dtype,
                        device: device.clone(),
                    }),
                    ends: tokenizer.ends(),
                    tokenizer: Some(tokenizer),
                    dtype,
                    block: 1,
                })
            }
            Model::Llama(Files::Folder { folder, tokenizer }) => {
                let (config, stored) = checkpoint::read_config(&folder.config)?;
                let (tokenizer, ends) = words(folder, tokenizer, config.vocab_size)?;
                let dtype = asked.unwrap_or_else(|| default_dtype(stored, device));
                Ok(Self {
                    bytes: Bytes::dense(&config, dtype),
                    config,
                    adjacent: false,
                    weights: Box::new(Safetensors {
                        files: checkpoint::mapped(folder)?,
                        folder: folder.dir().to_path_buf(),
                        dtype,
                        device: device.clone(),
                    }),
                    tokenizer: Some(tokenizer),
                    ends,
                    dtype,
                    block: 1,
                })
            }
            Model::Gguf { path, tokenizer } => {
                let file = Gguf::open(path)?;
                let tokenizer = gguf_tokenizer(&file, tokenizer.as_deref())?;
                let mut ends = tokenizer.ends();
                let more = ["eos", "eot", "eom"].map(|part| file.id(part));
                ends.extend(more.iter().flatten());
                Self::gguf(file, Some(tokenizer), ends, device)
            }
            Model::Random {
                shape,
                quant: Some(quant),
            } => {
                let (content, bytes) = random::gguf(shape, quant)?;
                let file = Gguf::in_memory("random weights", content, bytes);
                Self::gguf(file, None, Vec::new(), device)
            }
            Model::Random { shape, quant: None } => {
                let config = shape.config();
                let dtype = asked.unwrap_or_else(|| default_dtype(Some(DType::F16), device));
                Ok(Self {
                    bytes: Bytes::dense(&config, dtype),
                    config,
                    adjacent: false,
                    weights: Box::new(Built::random(dtype, device)),
                    tokenizer: None,
                    ends: Vec::new(),
                    dtype,
                    block: 1,
                })
            }
            Model::Bert(_) => anyhow::bail!("a BERT is not split: use --parallel data"),
        }
    }

    fn gguf(
        mut file: Gguf,
        tokenizer: Option<Tokenizer>,
        ends: Vec<u32>,
        device: &Device,
    ) -> Result<Self> {
        let config = file.llama()?;
        if let Some(tokenizer) = &tokenizer {
            tokenizer.check_fits(config.vocab_size)?;
        }
        if file.suits_f32(device) {
            file = file.unpacked();
        }
        let matrices = ["attn_output", "ffn_down"];
        let blocks = matrices.map(|name| file.tensor(&format!("blk.0.{name}.weight")));
        let blocks = blocks.iter().flatten().map(|(dtype, _)| dtype.block_size());
        Ok(Self {
            block: blocks.max().unwrap_or(1),
            bytes: Bytes::gguf(&file),
            config,
            adjacent: true,
            weights: Box::new(Blocks {
                file,
                device: device.clone(),
            }),
            tokenizer,
            ends,
            dtype: DType::F32,
        })
    }
}

/// The tokenizer of a GGUF file, or another one.
pub fn gguf_tokenizer(file: &Gguf, given: Option<&Path>) -> Result<Tokenizer> {
    Ok(match given {
        Some(path) => Tokenizer::open(path)?,
        None => Tokenizer::from_gguf(file)?,
    })
}
