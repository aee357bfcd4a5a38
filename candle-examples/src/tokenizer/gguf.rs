//! A tokenizer from the metadata of a GGUF file: byte-level BPE (`gpt2`), or SentencePiece's BPE (`llama`).

use super::pre;
use crate::gguf::Gguf;
use std::collections::HashMap;
use tokenizers::decoders::{byte_fallback, fuse, sequence, strip, DecoderWrapper};
use tokenizers::models::bpe::{BpeBuilder, Merges, Vocab, BPE};
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

/// Marks a space in the pieces of SentencePiece.
const SPACE: &str = "\u{2581}";

/// What a `tokenizer.ggml.token_type` of this number stands for.
const UNKNOWN: usize = 2;
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;

type Reason = Box<dyn std::error::Error + Send + Sync>;

pub fn build(file: &Gguf) -> Result<Tokenizer, Reason> {
    let tokens = file.texts("tokenizer.ggml.tokens");
    let tokens = tokens.ok_or("tokenizer.ggml.tokens is missing")?;
    let mut tokenizer = match file.text("tokenizer.ggml.model") {
        Some("gpt2") => byte_level(file, &tokens)?,
        Some("llama") => sentence_piece(file, &tokens)?,
        other => {
            let other = other.unwrap_or("(none)");
            return Err(format!("the kind `{other}` is not gpt2 or llama").into());
        }
    };
    let types = file.numbers("tokenizer.ggml.token_type");
    let typed = tokens.iter().zip(types.unwrap_or_default());
    let added = typed.filter_map(|(token, kind)| match kind {
        UNKNOWN | CONTROL => Some(AddedToken::from(token, true)),
        USER_DEFINED => Some(AddedToken::from(token, false).normalized(false)),
        _ => None,
    });
    tokenizer.add_tokens(added)?;
    Ok(tokenizer)
}

fn byte_level(file: &Gguf, tokens: &[String]) -> Result<Tokenizer, Reason> {
    let merges = file.texts("tokenizer.ggml.merges");
    let merges = merges.ok_or("tokenizer.ggml.merges is missing")?;
    let pair = |merge: &String| {
        let pair = merge.split_once(' ');
        let (a, b) = pair.ok_or_else(|| format!("{merge:?} is no pair"))?;
        Ok((a.to_string(), b.to_string()))
    };
    let merges = merges
        .iter()
        .map(pair)
        .collect::<Result<Merges, Reason>>()?;
    let pre = pre::find(file.text("tokenizer.ggml.pre"))?;
    let builder = bpe(tokens, merges).ignore_merges(pre.whole_words);
    let mut tokenizer = Tokenizer::new(builder.build()?);
    tokenizer.with_pre_tokenizer(Some(pre.splits()?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    Ok(tokenizer)
}

fn sentence_piece(file: &Gguf, tokens: &[String]) -> Result<Tokenizer, Reason> {
    let scores = file.floats("tokenizer.ggml.scores");
    let scores = scores.filter(|s| s.len() == tokens.len());
    let scores = scores.ok_or("tokenizer.ggml.scores does not go with the tokens")?;
    let mut builder = bpe(tokens, merges(tokens, &scores))
        .byte_fallback(true)
        .fuse_unk(true);
    let unknown = file.id("unknown").and_then(|id| tokens.get(id as usize));
    if let Some(unknown) = unknown {
        builder = builder.unk_token(unknown.clone());
    }
    let mut tokenizer = Tokenizer::new(builder.build()?);
    let prefix = file.flag("tokenizer.ggml.add_space_prefix").unwrap_or(true);
    let mut normalizers = Vec::new();
    let mut decoders: Vec<DecoderWrapper> = vec![
        Replace::new(SPACE, " ")?.into(),
        byte_fallback::ByteFallback::new().into(),
        fuse::Fuse::new().into(),
    ];
    if prefix {
        normalizers.push(Prepend::new(SPACE.to_string()).into());
        decoders.push(strip::Strip::new(' ', 1, 0).into());
    }
    normalizers.push(Replace::new(" ", SPACE)?.into());
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers)))?;
    tokenizer.with_decoder(Some(sequence::Sequence::new(decoders)));
    Ok(tokenizer)
}

fn bpe(tokens: &[String], merges: Merges) -> BpeBuilder {
    let vocabulary: Vocab = tokens.iter().cloned().zip(0..).collect();
    BPE::builder().vocab_and_merges(vocabulary, merges)
}

/// SentencePiece joins the neighbours that make the piece of the best score: as a list of merges, all the pairs that
/// make a piece, the best piece's first.
fn merges(tokens: &[String], scores: &[f32]) -> Merges {
    let ids: HashMap<&str, usize> = tokens.iter().map(String::as_str).zip(0..).collect();
    let mut found = Vec::new();
    for (piece, score) in tokens.iter().zip(scores) {
        for (at, _) in piece.char_indices().skip(1) {
            let (a, b) = piece.split_at(at);
            if let (Some(&i), Some(&j)) = (ids.get(a), ids.get(b)) {
                found.push((*score, i, j));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let name = |id: usize| tokens[id].clone();
    found.iter().map(|&(_, i, j)| (name(i), name(j))).collect()
}
