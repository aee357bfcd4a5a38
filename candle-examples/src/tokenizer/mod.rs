//! Text to token ids and back: `tokenizer.json` and GGUF metadata through the tokenizers crate, llama2.c's
//! `tokenizer.bin` through our own reader.

mod gguf;
mod llama2c;
mod pre;

pub use llama2c::Vocabulary;

use crate::error::{Error, Result};
use crate::gguf::Gguf;
use std::path::{Path, PathBuf};

pub struct Tokenizer {
    path: PathBuf,
    kind: Kind,
}

/// Names of the tokens that end a text or a turn, in various models.
const ENDS: [&str; 6] = [
    "</s>",
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|end|>",
    "<end_of_turn>",
];

enum Kind {
    Json(Box<tokenizers::Tokenizer>),
    Llama2c(Vocabulary),
}

/// Parses the bytes of a tokenizer.json; `path` is for errors.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<tokenizers::Tokenizer> {
    tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| Error::Tokenizer {
        path: path.to_path_buf(),
        reason: e.to_string(),
    })
}

impl Tokenizer {
    /// Opens a `.json` as a tokenizers file and anything else as llama2.c's `tokenizer.bin`.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(Error::Missing {
                what: "tokenizer",
                path: path.to_path_buf(),
            });
        }
        let bytes = std::fs::read(path).map_err(Error::io(path))?;
        match path.extension().is_some_and(|e| e == "json") {
            true => Self::json(path, &bytes),
            false => Self::llama2c(path, &bytes),
        }
    }

    /// Parses the bytes of llama2.c's `tokenizer.bin`; `path` is for errors.
    pub fn llama2c(path: &Path, bytes: &[u8]) -> Result<Self> {
        let path = path.to_path_buf();
        match Vocabulary::parse(bytes) {
            Ok(vocabulary) => Ok(Self {
                path,
                kind: Kind::Llama2c(vocabulary),
            }),
            Err(reason) => Err(Error::Tokenizer { path, reason }),
        }
    }

    /// Parses the bytes of a tokenizer.json; `path` is for errors.
    pub fn json(path: &Path, bytes: &[u8]) -> Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            kind: Kind::Json(Box::new(parse(path, bytes)?)),
        })
    }

    /// The tokenizer in the metadata of a GGUF file.
    pub fn from_gguf(file: &Gguf) -> Result<Self> {
        match gguf::build(file) {
            Ok(json) => Ok(Self {
                path: file.path.clone(),
                kind: Kind::Json(Box::new(json)),
            }),
            Err(reason) => Err(Error::Tokenizer {
                path: file.path.clone(),
                reason: reason.to_string(),
            }),
        }
    }

    /// An error if the tokenizer has ids beyond the model's embedding.
    pub fn check_fits(&self, vocab_size: usize) -> Result<()> {
        let size = match &self.kind {
            Kind::Json(json) => json.get_vocab_size(true),
            Kind::Llama2c(vocabulary) => vocabulary.len(),
        };
        if size <= vocab_size {
            return Ok(());
        }
        Err(Error::Tokenizer {
            path: self.path.clone(),
            reason: format!("it has {size} tokens, the model {vocab_size}: they do not match"),
        })
    }

    /// The ids of `text`, after the tokens that the model expects at the start.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Kind::Json(json) => self.encode_json(json, text, true),
            Kind::Llama2c(vocabulary) => Ok(vocabulary.encode(text)),
        }
    }

    /// The ids of `text` alone.
    pub fn encode_bare(&self, text: &str) -> Result<Vec<u32>> {
        match &self.kind {
            Kind::Json(json) => self.encode_json(json, text, false),
            Kind::Llama2c(vocabulary) => Ok(vocabulary.encode(text).split_off(1)),
        }
    }

    fn encode_json(
        &self,
        json: &tokenizers::Tokenizer,
        text: &str,
        frame: bool,
    ) -> Result<Vec<u32>> {
        match json.encode_fast(text, frame) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(e) => Err(Error::Tokenizer {
                path: self.path.clone(),
                reason: e.to_string(),
            }),
        }
    }

    /// Whether `text` begins with a special token. Text is split at special tokens first, so text before one does not
    /// influence the ids that follow.
    pub fn begins_special(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Json(json) => {
                let added = json.get_added_vocabulary();
                let mut tokens = added.get_vocab().keys();
                tokens
                    .any(|token| text.starts_with(token.as_str()) && added.is_special_token(token))
            }
            Kind::Llama2c(_) => false,
        }
    }

    /// The text of `ids`. An incomplete character becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        match &self.kind {
            Kind::Json(json) => json.decode(ids, true).map_err(|e| Error::Tokenizer {
                path: self.path.clone(),
                reason: e.to_string(),
            }),
            Kind::Llama2c(vocabulary) => {
                Ok(String::from_utf8_lossy(&vocabulary.decode(ids)).into_owned())
            }
        }
    }

    /// The name of a token; `None` for llama2.c's vocabularies, whose tokens have no names.
    pub fn name(&self, id: u32) -> Option<String> {
        match &self.kind {
            Kind::Json(json) => json.id_to_token(id),
            Kind::Llama2c(_) => None,
        }
    }

    /// The id of a named token; `None` for llama2.c's vocabularies, whose tokens have no names.
    pub fn id(&self, token: &str) -> Option<u32> {
        match &self.kind {
            Kind::Json(json) => json.token_to_id(token),
            Kind::Llama2c(_) => None,
        }
    }

    /// The ids that end a text in this vocabulary.
    pub fn ends(&self) -> Vec<u32> {
        match &self.kind {
            Kind::Json(json) => ENDS
                .iter()
                .filter_map(|token| json.token_to_id(token))
                .collect(),
            // llama2.c's models were trained on concatenated stories, so BOS also ends a story.
            Kind::Llama2c(_) => vec![llama2c::BOS, llama2c::EOS],
        }
    }
}

/// Decodes ids one by one and holds incomplete characters back.
///
/// Decoding depends on the preceding ids, so each step decodes a short window that starts at a known boundary.
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    ids: Vec<u32>,
    start: usize,
    shown: usize,
}

impl<'a> Stream<'a> {
    /// Starts after `prompt`, whose text is not repeated.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32]) -> Self {
        Self {
            tokenizer,
            ids: prompt.to_vec(),
            start: 0,
            shown: prompt.len(),
        }
    }

    /// The text that `id` completes; empty while a character is incomplete.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.ids.push(id);
        let text = self.pending()?;
        if text.is_empty() || text.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        self.start = self.shown;
        self.shown = self.ids.len();
        Ok(text)
    }

    /// The text still held back.
    pub fn finish(self) -> Result<String> {
        self.pending()
    }

    fn pending(&self) -> Result<String> {
        let shown = self.tokenizer.decode(&self.ids[self.start..self.shown])?;
        let text = self.tokenizer.decode(&self.ids[self.start..])?;
        Ok(text.get(shown.len()..).unwrap_or_default().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_only() -> Tokenizer {
        let vocabulary = Vocabulary::parse(&llama2c::tests::file(&[])).expect("a valid file");
        Tokenizer {
            path: PathBuf::from("tokenizer.bin"),
            kind: Kind::Llama2c(vocabulary),
        }
    }

    #[test]
    fn a_character_is_held_back_until_it_is_whole() -> Result<()> {
        let tokenizer = bytes_only();
        let mut stream = Stream::new(&tokenizer, &[llama2c::BOS]);
        let mut pieces = Vec::new();
        for byte in "a\u{e9}\u{1f600}b".bytes() {
            pieces.push(stream.push(u32::from(byte) + 3)?);
        }
        assert_eq!(pieces, ["a", "", "\u{e9}", "", "", "", "\u{1f600}", "b"]);
        assert_eq!(stream.finish()?, "");
        Ok(())
    }

    #[test]
    fn an_incomplete_end_is_not_lost() -> Result<()> {
        let tokenizer = bytes_only();
        let mut stream = Stream::new(&tokenizer, &[]);
        assert_eq!(stream.push(0xc3 + 3)?, "");
        assert_eq!(stream.finish()?, "\u{fffd}");
        Ok(())
    }

    #[test]
    fn bad_files_are_typed_errors() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let missing = Tokenizer::open(&dir.path().join("tokenizer.json"));
        assert!(matches!(missing, Err(Error::Missing { .. })));
        for name in ["tokenizer.json", "tokenizer.bin"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "{}").map_err(Error::io(&path))?;
            let opened = Tokenizer::open(&path);
            assert!(matches!(opened, Err(Error::Tokenizer { .. })), "{name}");
        }
        assert!(matches!(
            bytes_only().check_fits(100),
            Err(Error::Tokenizer { .. })
        ));
        Ok(())
    }
}
