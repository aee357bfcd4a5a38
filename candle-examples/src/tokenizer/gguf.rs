//! A tokenizer from the metadata of a GGUF file: byte-level BPE (`gpt2`), or SentencePiece BPE (`llama`).

use super::pre;
use crate::gguf::Gguf;
use std::collections::HashMap;
use tokenizers::decoders::{byte_fallback, fuse, sequence, strip, DecoderWrapper};
use tokenizers::models::bpe::{BpeBuilder, Merges, Vocab, BPE};
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers, NFC};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

/// Marks a space in the pieces of SentencePiece.
const SPACE: &str = "\u{2581}";

/// Values of `tokenizer.ggml.token_type`.
const UNKNOWN: usize = 2;
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;

/// Maximum bytes of a piece for which merges are searched: every split of the piece is looked up.
const LONGEST: usize = 1024;

type Reason = Box<dyn std::error::Error + Send + Sync>;

pub fn build(file: &Gguf) -> Result<Tokenizer, Reason> {
    let tokens = file.texts("tokenizer.ggml.tokens");
    let tokens = tokens.ok_or("tokenizer.ggml.tokens is missing")?;
    let mut tokenizer = match file.text("tokenizer.ggml.model") {
        Some("gpt2") => byte_level(file, &tokens)?,
        Some("llama") => sentence_piece(file, &tokens)?,
        other => {
            let other = other.unwrap_or("(none)");
            return Err(format!("its kind `{other}` is not gpt2 or llama").into());
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
        let (a, b) = pair.ok_or_else(|| format!("{merge:?} is not a pair"))?;
        Ok((a.to_string(), b.to_string()))
    };
    let merges = merges
        .iter()
        .map(pair)
        .collect::<Result<Merges, Reason>>()?;
    let pre = pre::find(file.text("tokenizer.ggml.pre"))?;
    let builder = bpe(tokens, merges).ignore_merges(pre.whole_words);
    let mut tokenizer = Tokenizer::new(builder.build()?);
    if pre.composed {
        tokenizer.with_normalizer(Some(NFC))?;
    }
    tokenizer.with_pre_tokenizer(Some(pre.splits()?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    Ok(tokenizer)
}

fn sentence_piece(file: &Gguf, tokens: &[String]) -> Result<Tokenizer, Reason> {
    let scores = file.floats("tokenizer.ggml.scores");
    let scores = scores.filter(|s| s.len() == tokens.len());
    let scores = scores.ok_or("tokenizer.ggml.scores does not match the tokens")?;
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

/// SentencePiece joins the neighbours that form the piece with the best score. As a list of merges: all pairs that form
/// a piece, in descending order of the piece's score.
fn merges(tokens: &[String], scores: &[f32]) -> Merges {
    let ids: HashMap<&str, usize> = tokens.iter().map(String::as_str).zip(0..).collect();
    let mut found = Vec::new();
    let pieces = tokens.iter().zip(scores);
    for (piece, score) in pieces.filter(|(piece, _)| piece.len() <= LONGEST) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::llama2c::{self, Vocabulary};
    use candle_core::quantized::gguf_file::{self, Value};
    use std::io::Cursor;

    const UNKNOWN: u32 = super::UNKNOWN as u32;
    const CONTROL: u32 = super::CONTROL as u32;
    const NORMAL: u32 = 1;
    const BYTE: u32 = 6;

    fn text(text: &str) -> Value {
        Value::String(text.to_string())
    }

    fn made(kind: &str, tokens: &[(&str, u32, f32)], extra: &[(&str, Value)]) -> Tokenizer {
        let array = |values: Vec<Value>| Value::Array(values);
        let model = text(kind);
        let names = array(tokens.iter().map(|t| text(t.0)).collect());
        let types = array(tokens.iter().map(|t| Value::U32(t.1)).collect());
        let scores = array(tokens.iter().map(|t| Value::F32(t.2)).collect());
        let mut metadata = vec![
            ("tokenizer.ggml.model", &model),
            ("tokenizer.ggml.tokens", &names),
            ("tokenizer.ggml.token_type", &types),
            ("tokenizer.ggml.scores", &scores),
        ];
        metadata.extend(extra.iter().map(|(key, value)| (*key, value)));
        let mut bytes = Cursor::new(Vec::new());
        gguf_file::write(&mut bytes, &metadata, &[]).expect("metadata of valid types");
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), bytes.into_inner()).expect("a temporary file");
        let file = Gguf::open(file.path()).expect("a valid file");
        build(&file).expect("a valid tokenizer")
    }

    fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        let encoding = tokenizer.encode(text, false).expect("a text to encode");
        encoding.get_ids().to_vec()
    }

    #[test]
    fn byte_level_joins_bytes_and_keeps_special_tokens_whole() {
        let tokens = [
            "<|im_end|>",
            "h",
            "i",
            "\u{120}",
            "hi",
            "\u{120}hi",
            "1",
            "2",
            "12",
        ];
        let tokens = tokens.map(|t| (t, if t.len() > 5 { CONTROL } else { NORMAL }, 0.));
        let merges = ["h i", "\u{120} hi", "1 2"];
        let extra = [
            ("tokenizer.ggml.pre", text("smollm")),
            (
                "tokenizer.ggml.merges",
                Value::Array(merges.map(text).to_vec()),
            ),
        ];
        let tokenizer = made("gpt2", &tokens, &extra);
        // No space before the text; digits stay separate although a merge would join them.
        let found = ids(&tokenizer, "hi hi 12<|im_end|>hi");
        assert_eq!(found, [4, 5, 3, 6, 7, 0, 4]);
        let decode = |skip| tokenizer.decode(&found, skip).expect("known ids");
        assert_eq!(decode(true), "hi hi 12hi");
        assert_eq!(decode(false), "hi hi 12<|im_end|>hi");
    }

    #[test]
    fn qwen2_composes_letters_first() {
        let tokens = ["\u{c3}", "\u{a9}", "\u{c3}\u{a9}"].map(|token| (token, NORMAL, 0.));
        let extra = [
            ("tokenizer.ggml.pre", text("qwen2")),
            (
                "tokenizer.ggml.merges",
                Value::Array(vec![text("\u{c3} \u{a9}")]),
            ),
        ];
        let tokenizer = made("gpt2", &tokens, &extra);
        assert_eq!(ids(&tokenizer, "e\u{301}"), [2]);
    }

    /// The same pieces as in llama2.c's file.
    const PIECES: [(&str, f32); 7] = [
        (" ", -9.),
        ("a", -9.),
        ("b", -9.),
        ("ab", -2.),
        (" a", -1.),
        ("abab", -3.),
        ("ba", -1.5),
    ];

    fn pieces(extra: &[(&str, Value)]) -> Tokenizer {
        let bytes: Vec<_> = (0..=255u8).map(|b| format!("<0x{b:02X}>")).collect();
        let pieces = PIECES.map(|(piece, score)| (piece.replace(' ', SPACE), score));
        let mut tokens = vec![
            ("<unk>", UNKNOWN, 0.),
            ("<s>", CONTROL, 0.),
            ("</s>", CONTROL, 0.),
        ];
        tokens.extend(bytes.iter().map(|byte| (byte.as_str(), BYTE, 0.)));
        tokens.extend(
            pieces
                .iter()
                .map(|(piece, score)| (piece.as_str(), NORMAL, *score)),
        );
        made("llama", &tokens, extra)
    }

    #[test]
    fn pieces_are_joined_as_by_llama2c() {
        let ours = Vocabulary::parse(&llama2c::tests::file(&PIECES)).expect("a valid file");
        let theirs = pieces(&[]);
        for text in [
            "ab",
            "abab ab",
            "babab",
            "aabbaabb",
            "a\u{e9}b  a",
            "bab abba ab",
        ] {
            let expected = ours.encode(text);
            assert_eq!(ids(&theirs, text), expected[1..], "{text}");
            let decoded = theirs.decode(&expected, true).expect("known ids");
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn a_space_is_put_in_front_only_where_the_model_wants_it() {
        let space = |tokenizer: &Tokenizer| ids(tokenizer, "b")[0] == 259;
        assert!(space(&pieces(&[])));
        let without = ("tokenizer.ggml.add_space_prefix", Value::Bool(false));
        assert!(!space(&pieces(&[without])));
    }
}
