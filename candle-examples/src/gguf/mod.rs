//! GGUF: a file with quantized weights, a tokenizer and a chat template.

#[cfg(not(target_arch = "wasm32"))]
mod locate;
mod needs;
mod network;
#[cfg(not(target_arch = "wasm32"))]
mod tensors;
mod unpacked;

#[cfg(not(target_arch = "wasm32"))]
pub use locate::{locate, locate_tokenizer};
pub use needs::needs;
pub use network::{Forward, Network, Source, ARCHITECTURES};

use crate::error::{Error, Result};
use crate::model::MOST_ANGLES;
#[cfg(feature = "chat")]
use crate::template::{Template, CHATML};
use crate::tokenizer::Tokenizer;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::Device;
use std::fs::File;
use std::io::{BufReader, SeekFrom};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use unpacked::Unpacked;

/// Models below this size in f32 are dequantized on the CPU.
const SMALL: u64 = 1 << 30;

/// An open GGUF file with its metadata.
pub struct Gguf {
    pub path: PathBuf,
    content: Content,
    reader: Box<dyn Source>,
}

/// A model with its tokenizer and KV cache.
pub struct Loaded {
    pub network: Network,
    pub tokenizer: Tokenizer,
    pub architecture: &'static str,
    /// Maximum context length in tokens.
    pub context: usize,
    /// The id with which every text begins, if the model requires one.
    pub begin: Option<u32>,
    /// The ids that end a reply.
    pub ends: Vec<u32>,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        Self::read(path, BufReader::new(file))
    }

    /// Reads the metadata from any source; `path` is for errors.
    pub fn read(path: &Path, mut reader: impl Source + 'static) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint {
            path: path.to_path_buf(),
            reason,
        };
        let content = Content::read(&mut reader).map_err(|e| bad(e.to_string()))?;
        let size = reader.seek(SeekFrom::End(0)).map_err(Error::io(path))?;
        check(&content, size).map_err(bad)?;
        Ok(Self {
            path: path.to_path_buf(),
            content,
            reader: Box::new(reader),
        })
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.content.metadata.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.content.metadata.get(key)?.to_bool().ok()
    }

    /// A metadata value of any integer type.
    pub fn number(&self, key: &str) -> Option<usize> {
        number(self.content.metadata.get(key)?)
    }

    /// The id of a special token, for example `bos`, from the tokenizer's metadata.
    pub fn id(&self, part: &str) -> Option<u32> {
        let id = self.number(&format!("tokenizer.ggml.{part}_token_id"))?;
        u32::try_from(id).ok()
    }

    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        let text = |value: &Value| value.to_string().ok().cloned();
        self.array(key)?.iter().map(text).collect()
    }

    pub fn numbers(&self, key: &str) -> Option<Vec<usize>> {
        self.array(key)?.iter().map(number).collect()
    }

    pub fn floats(&self, key: &str) -> Option<Vec<f32>> {
        self.array(key)?.iter().map(|v| v.to_f32().ok()).collect()
    }

    fn array(&self, key: &str) -> Option<&Vec<Value>> {
        self.content.metadata.get(key)?.to_vec().ok()
    }

    /// The device memory that the model needs.
    pub fn needs(&self) -> crate::needs::Needs {
        needs(&self.content)
    }

    /// Rows of the token embedding.
    pub fn vocabulary(&self) -> Option<usize> {
        let embedding = self.content.tensor_infos.get("token_embd.weight")?;
        embedding.shape.dims().first().copied()
    }

    /// Size of all weights in f32.
    pub fn f32_bytes(&self) -> u64 {
        let tensors = self.content.tensor_infos.values();
        tensors.map(|t| t.shape.elem_count() as u64 * 4).sum()
    }

    /// Whether f32 weights are better on `device`: the CPU's quantized matmul rounds activations to 8 bits.
    pub fn suits_f32(&self, device: &Device) -> bool {
        device.is_cpu() && self.f32_bytes() < SMALL
    }

    /// The same file with f32 weights, each dequantized when it is read.
    pub fn unpacked(mut self) -> Self {
        self.reader = Box::new(Unpacked::new(&mut self.content, self.reader));
        self
    }

    /// The chat template: `given`, else the file's, else ChatML if the tokenizer has its tokens.
    #[cfg(feature = "chat")]
    pub fn template(&self, tokenizer: &Tokenizer, given: Option<&str>) -> Result<Template> {
        let name = |part| self.id(part).and_then(|id| tokenizer.name(id));
        let chatml = || tokenizer.id("<|im_start|>").map(|_| CHATML);
        let source = given
            .or(self.text("tokenizer.chat_template"))
            .or_else(chatml)
            .ok_or_else(|| Error::NoTemplate {
                path: self.path.clone(),
            })?;
        let [begin, end] = ["bos", "eos"].map(|part| name(part).unwrap_or_default());
        Template::new(source, &begin, &end)
    }

    fn bad(&self, reason: impl ToString) -> Error {
        Error::Checkpoint {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    /// The most tokens that the model takes.
    pub fn context(&self) -> Result<usize> {
        let architecture = network::find(self.text("general.architecture"))?;
        let context = self.number(&format!("{}.context_length", architecture.name));
        let context = context.ok_or_else(|| self.bad("it has no context_length"))?;
        Ok(context.min(architecture.positions))
    }

    /// Loads the network alone to `device`.
    pub fn forward(mut self, device: &Device) -> Result<Forward> {
        let architecture = network::find(self.text("general.architecture"))?;
        measure(&self.content, architecture.positions).map_err(|reason| self.bad(reason))?;
        // candle-transformers panics on some files: it divides by head counts and does not check shapes.
        let load = || (architecture.load)(self.content, &mut *self.reader, device);
        match catch_unwind(AssertUnwindSafe(load)) {
            Ok(loaded) => Ok(loaded?),
            Err(_) => {
                let path = self.path;
                let reason = format!("it is not a valid {} model", architecture.name);
                Err(Error::Checkpoint { path, reason })
            }
        }
    }

    /// Loads the model to `device`, with the file's own or another tokenizer.
    pub fn load(self, tokenizer: Tokenizer, device: &Device) -> Result<Loaded> {
        let architecture = network::find(self.text("general.architecture"))?;
        let context = self.context()?;
        let vocabulary = self.vocabulary();
        tokenizer.check_fits(vocabulary.ok_or_else(|| self.bad("no token_embd.weight"))?)?;

        let mut ends = tokenizer.ends();
        ends.extend(
            ["eos", "eot", "eom"]
                .iter()
                .filter_map(|part| self.id(part)),
        );
        // Without this flag, the kind of the tokenizer decides.
        let begins = self.flag("tokenizer.ggml.add_bos_token");
        let begins = begins.unwrap_or(self.text("tokenizer.ggml.model") == Some("llama"));
        let begin = self.id("bos").filter(|_| begins);
        Ok(Loaded {
            network: Network::new(self.forward(device)?),
            tokenizer,
            architecture: architecture.name,
            context,
            begin,
            ends,
        })
    }
}

/// Far above any real model.
const MOST: [(&str, usize); 3] = [
    ("block_count", 1 << 12),
    ("expert_count", 1 << 12),
    ("context_length", 1 << 24),
];

/// Rejects metadata with sizes that exceed the tensors or any real model, since candle-transformers allocates what they say. `positions` is
/// the number of RoPE angles if it does not depend on the metadata.
fn measure(content: &Content, positions: usize) -> Result<(), String> {
    let greatest = |name| greatest(content, name);
    for (name, most) in MOST {
        let number = greatest(name);
        if number > most {
            return Err(format!("{name} is {number}, more than {most}"));
        }
    }
    let (width, heads) = (
        greatest("embedding_length"),
        greatest("attention.head_count"),
    );
    let head = (width / heads.max(1))
        .max(greatest("attention.key_length"))
        .max(greatest("rope.dimension_count"));
    let heads = heads.max(greatest("attention.head_count_kv")).max(1);
    let tensors = content.tensor_infos.values();
    let widest = tensors
        .flat_map(|t| t.shape.dims())
        .max()
        .copied()
        .unwrap_or(0);
    if width > widest || head.checked_mul(heads).is_none_or(|all| all > widest) {
        return Err(format!(
            "{heads} heads of {head} and embeddings of {width} exceed the sizes of its tensors"
        ));
    }
    let positions = match positions {
        usize::MAX => greatest("context_length"),
        positions => positions,
    };
    if positions
        .checked_mul(head)
        .is_none_or(|angles| angles > MOST_ANGLES)
    {
        return Err(format!(
            "{positions} positions with heads of {head} exceed any known model"
        ));
    }
    Ok(())
}

/// The greatest value of a key under any prefix: some loaders read the keys of a related architecture.
fn greatest(content: &Content, name: &str) -> usize {
    let named = |key: &str| key.split_once('.').is_some_and(|(_, rest)| rest == name);
    let values = content.metadata.iter().filter(|(key, _)| named(key));
    values.filter_map(|(_, v)| number(v)).max().unwrap_or(0)
}

/// Checks that the file contains all its tensors, that none is empty, and that they do not overlap. Candle multiplies sizes without
/// overflow checks, allows tensors to share bytes, and makes a slice of blocks from a dangling pointer for an empty tensor.
fn check(content: &Content, size: u64) -> Result<(), String> {
    let mut all = 0u64;
    for (name, tensor) in &content.tensor_infos {
        let (dims, dtype) = (tensor.shape.dims(), tensor.ggml_dtype);
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let blocks = count.map(|n| n / dtype.block_size());
        let bytes = blocks.and_then(|n| n.checked_mul(dtype.type_size()));
        let end = bytes.filter(|bytes| *bytes > 0).and_then(|bytes| {
            all = all.checked_add(bytes as u64)?;
            let start = content.tensor_data_offset.checked_add(tensor.offset)?;
            start.checked_add(bytes as u64)
        });
        if end.is_none_or(|end| end > size) {
            return Err(format!("{name} {dims:?} is not within its {size} bytes"));
        }
    }
    match all > size {
        true => Err(format!("its tensors overlap: {all} bytes in {size}")),
        false => Ok(()),
    }
}

fn number(value: &Value) -> Option<usize> {
    let number = match value {
        Value::I8(v) => i64::from(*v),
        Value::I16(v) => i64::from(*v),
        Value::I32(v) => i64::from(*v),
        Value::I64(v) => *v,
        _ => return usize::try_from(value.to_u64().ok()?).ok(),
    };
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_none_and_an_unknown_architecture_are_typed_errors() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, "no GGUF").map_err(Error::io(&path))?;
        assert!(matches!(Gguf::open(&path), Err(Error::Checkpoint { .. })));
        let message = network::find(Some("mamba")).err().map(|e| e.to_string());
        assert!(message.is_some_and(|m| m.contains("mamba") && m.contains("qwen3")));
        Ok(())
    }

    #[test]
    fn numbers_may_be_of_any_integer_type() {
        for value in [Value::U8(7), Value::I32(7), Value::U64(7), Value::I64(7)] {
            assert_eq!(number(&value), Some(7));
        }
        assert_eq!(number(&Value::I32(-1)), None);
        assert_eq!(number(&Value::F32(7.)), None);
    }
}
