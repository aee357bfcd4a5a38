//! llama2.c checkpoints (`.bin`): a header of seven i32, then the weights as f32.
//!
//! candle-transformers trusts the header, so it is compared with the file's size first.

use crate::error::{Error, Result};
use crate::needs::Needs;
use candle_core::{DType, Device};
use candle_nn::VarBuilder;
use candle_transformers::models::llama2_c::{Cache, Config, Llama};
use candle_transformers::models::llama2_c_weights::TransformerWeights;
use std::io::Read;
use std::path::Path;

#[cfg(not(target_arch = "wasm32"))]
pub use files::{read, Dense};

const HEADER: u64 = 28;
/// The first word of llama2.c's later formats ("ak42") and of GGUF files.
const AK42: i32 = 0x616b_3432;
const GGUF: i32 = i32::from_le_bytes(*b"GGUF");

/// A checkpoint whose header has been read.
pub struct Checkpoint<R> {
    pub config: Config,
    reader: R,
}

impl<R: Read> Checkpoint<R> {
    /// Reads the header and checks that it matches the file's size of `got` bytes; `path` is for errors.
    pub fn open(path: &Path, mut reader: R, got: u64) -> Result<Self> {
        let truncated = |expected| Error::Truncated {
            path: path.to_path_buf(),
            expected,
            got,
        };
        if got < HEADER {
            return Err(truncated(HEADER));
        }
        let mut header = [0u8; HEADER as usize];
        reader.read_exact(&mut header).map_err(Error::io(path))?;
        let mut words = [0i32; 7];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(4)) {
            *word = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let config = check_header(words).map_err(|problem| match problem {
            Problem::Unsupported(what) => Error::Unsupported { what: what.into() },
            Problem::Bad(reason) => Error::Checkpoint {
                path: path.to_path_buf(),
                reason,
            },
        })?;
        let expected = size(&config);
        match got.cmp(&expected) {
            std::cmp::Ordering::Less => Err(truncated(expected)),
            std::cmp::Ordering::Equal => Ok(Self { config, reader }),
            std::cmp::Ordering::Greater => Err(Error::Checkpoint {
                path: path.to_path_buf(),
                reason: format!("it has {got} bytes, but its header requires {expected}"),
            }),
        }
    }

    /// The device memory that the model needs in `dtype`. The weights are read in f32, all layers of a matrix as one tensor.
    pub fn needs(&self, dtype: DType) -> Needs {
        let c = &self.config;
        let read = size(c) - HEADER;
        let width = dtype.size_in_bytes() as u64;
        let (dim, layers) = (c.dim as u64, c.n_layers as u64);
        let matrices = [
            c.hidden_dim as u64 * layers,
            dim * layers,
            c.vocab_size as u64,
        ];
        Needs {
            weights: if width == 4 {
                read
            } else {
                read + read / 4 * width
            },
            largest: matrices.into_iter().fold(0, u64::max) * dim * 4,
            per_token: 2 * layers * dim * width,
        }
    }

    /// Loads the model tensor by tensor and creates an empty KV cache.
    pub fn load(self, dtype: DType, device: &Device) -> Result<(Llama, Cache)> {
        let (config, vb) = self.weights(device)?;
        let vb = vb.to_dtype(dtype);
        let cache = Cache::new(true, &config, vb.pp("rot"))?;
        Ok((Llama::load(vb, config)?, cache))
    }

    /// The weights in f32, under the names that `models::llama` uses.
    pub fn weights(mut self, device: &Device) -> Result<(Config, VarBuilder<'static>)> {
        let config = self.config;
        let weights = TransformerWeights::from_reader(&mut self.reader, &config, device)?;
        let vb = weights.var_builder(&config, device)?;
        Ok((config, vb))
    }
}

enum Problem {
    Unsupported(&'static str),
    Bad(String),
}

fn check_header(words: [i32; 7]) -> Result<Config, Problem> {
    match words[0] {
        AK42 => {
            return Err(Problem::Unsupported(
                "llama2.c checkpoints of version 1 and 2",
            ))
        }
        GGUF => return Err(Problem::Unsupported("GGUF files")),
        _ => {}
    }
    if words[5] < 0 {
        return Err(Problem::Unsupported(
            "llama2.c checkpoints with a separate classifier",
        ));
    }
    // Far above any real model.
    let sizes = words.map(|word| {
        usize::try_from(word)
            .ok()
            .filter(|n| (1..1 << 24).contains(n))
    });
    let [Some(dim), Some(hidden_dim), Some(n_layers), Some(n_heads), Some(n_kv_heads), Some(vocab_size), Some(seq_len)] =
        sizes
    else {
        return Err(Problem::Bad(format!(
            "its header {words:?} is not a llama2.c header"
        )));
    };
    if n_layers > 4096 || dim % n_heads != 0 || (dim / n_heads) % 2 != 0 {
        return Err(Problem::Bad(format!(
            "its header {words:?} is not a llama2.c header"
        )));
    }
    if n_kv_heads != n_heads {
        return Err(Problem::Unsupported(
            "llama2.c checkpoints with fewer key-value heads than query heads",
        ));
    }
    Ok(Config {
        dim,
        hidden_dim,
        n_layers,
        n_heads,
        n_kv_heads,
        vocab_size,
        seq_len,
        norm_eps: 1e-5,
    })
}

/// The size in bytes of a checkpoint with this header, saturating.
fn size(c: &Config) -> u64 {
    let [dim, hidden, layers] = [c.dim, c.hidden_dim, c.n_layers].map(|n| n as u64);
    let layer = 2 * dim + 4 * dim * dim + 3 * dim * hidden;
    let rope = (c.seq_len * (c.dim / c.n_heads)) as u64;
    let floats = c.vocab_size as u64 * dim + dim + rope;
    let floats = layers.saturating_mul(layer).saturating_add(floats);
    floats.saturating_mul(4).saturating_add(HEADER)
}

/// Models of `models::llama` from llama2.c's files.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::Checkpoint;
    use crate::error::{Error, Result};
    use crate::tokenizer::Tokenizer;
    use candle_core::Device;
    use candle_nn::VarBuilder;
    use candle_transformers::models::llama::Config;
    use std::fs::File;
    use std::io::BufReader;
    use std::path::Path;

    /// A checkpoint for `models::llama`.
    pub struct Dense {
        pub config: Config,
        /// On the CPU, in f32.
        pub weights: VarBuilder<'static>,
        pub tokenizer: Tokenizer,
    }

    /// Reads a checkpoint and its `tokenizer.bin`, which must have the checkpoint's vocabulary.
    pub fn read(weights: &Path, tokenizer: &Path) -> Result<Dense> {
        let file = File::open(weights).map_err(Error::io(weights))?;
        let bytes = file.metadata().map_err(Error::io(weights))?.len();
        let checkpoint = Checkpoint::open(weights, BufReader::new(file), bytes)?;
        let (config, weights) = checkpoint.weights(&Device::Cpu)?;
        let tokenizer = Tokenizer::open(tokenizer)?;
        tokenizer.check_fits(config.vocab_size)?;
        let config = Config {
            hidden_size: config.dim,
            intermediate_size: config.hidden_dim,
            vocab_size: config.vocab_size,
            num_hidden_layers: config.n_layers,
            num_attention_heads: config.n_heads,
            num_key_value_heads: config.n_kv_heads,
            rms_norm_eps: config.norm_eps,
            max_position_embeddings: config.seq_len,
            ..Config::config_7b_v1(false)
        };
        Ok(Dense {
            config,
            weights,
            tokenizer,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::path::PathBuf;

    const WORDS: [i32; 7] = [8, 16, 2, 2, 2, 300, 32];

    fn open(path: &Path) -> Result<Checkpoint<std::fs::File>> {
        let file = std::fs::File::open(path).map_err(Error::io(path))?;
        let bytes = file.metadata().map_err(Error::io(path))?.len();
        Checkpoint::open(path, file, bytes)
    }

    fn write(dir: &Path, words: [i32; 7], extra: i64) -> Result<PathBuf> {
        let path = dir.join("model.bin");
        let size = check_header(WORDS).map(|c| size(&c)).unwrap_or_default();
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.resize((size as i64 + extra) as usize, 0);
        std::fs::write(&path, bytes).map_err(Error::io(&path))?;
        Ok(path)
    }

    #[test]
    fn the_size_is_that_of_stories15m() {
        let config = Config::tiny_15m();
        assert_eq!(size(&config), 60_816_028);
    }

    #[test]
    fn a_whole_file_loads_and_a_truncated_one_says_so() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let path = write(dir.path(), WORDS, 0)?;
        open(&path)?.load(DType::F32, &Device::Cpu)?;
        let cut = write(dir.path(), WORDS, -4)?;
        assert!(
            matches!(open(&cut), Err(Error::Truncated { expected, got, .. }) if expected == got + 4)
        );
        let long = write(dir.path(), WORDS, 4)?;
        assert!(matches!(open(&long), Err(Error::Checkpoint { .. })));
        std::fs::write(&path, b"short").map_err(Error::io(&path))?;
        assert!(matches!(open(&path), Err(Error::Truncated { .. })));
        Ok(())
    }

    #[test]
    fn headers_that_ask_for_more_than_there_is_are_truncated_files() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        const MOST: i32 = (1 << 24) - 2;
        for words in [
            [MOST, MOST, 4096, 1, 1, MOST, MOST],
            [8, MOST, 2, 2, 2, 300, 32],
            [8, 16, 4096, 2, 2, 300, 32],
            [8, 16, 2, 2, 2, 300, MOST],
        ] {
            let result = open(&write(dir.path(), words, 0)?);
            assert!(matches!(result, Err(Error::Truncated { .. })), "{words:?}");
        }
        for at in 0..7 {
            for word in [i32::MIN, i32::MAX, 0] {
                let mut words = WORDS;
                words[at] = word;
                assert!(open(&write(dir.path(), words, 0)?).is_err(), "{words:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn other_formats_are_named() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        for (at, word) in [(0, GGUF), (0, AK42), (4, 1), (5, -300)] {
            let mut words = WORDS;
            words[at] = word;
            let result = open(&write(dir.path(), words, 0)?);
            assert!(
                matches!(result, Err(Error::Unsupported { .. })),
                "{words:?}"
            );
        }
        for (at, word) in [(0, 7), (1, 0), (2, -1), (3, 3)] {
            let mut words = WORDS;
            words[at] = word;
            let result = open(&write(dir.path(), words, 0)?);
            assert!(matches!(result, Err(Error::Checkpoint { .. })), "{words:?}");
        }
        Ok(())
    }
}
