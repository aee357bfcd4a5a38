//! How byte-level tokenizers split text into words before merging: `tokenizer.ggml.pre`, one row per scheme.

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

pub struct Pre {
    /// The names of this scheme in GGUF files.
    names: &'static [&'static str],
    words: Words,
    /// A word that is itself a token is kept, whatever the merges would make of it.
    pub whole_words: bool,
    /// Normalizes to Unicode NFC first.
    pub composed: bool,
}

enum Words {
    /// GPT-2's pattern, which is built into `ByteLevel`.
    Gpt2,
    /// GPT-2's pattern, after splitting off every digit.
    Gpt2Digits,
    /// The pattern of cl100k, with this pattern for numbers.
    Cl100k(&'static str),
}

#[rustfmt::skip]
static PRES: &[Pre] = &[
    Pre { names: &["gpt-2", "gpt2"],                    words: Words::Gpt2,                 whole_words: false, composed: false },
    Pre { names: &["smollm", "starcoder", "refact"],        words: Words::Gpt2Digits,           whole_words: false, composed: false },
    Pre { names: &["llama-bpe", "llama3", "llama-v3"],      words: Words::Cl100k(r"\p{N}{1,3}"), whole_words: true,  composed: false },
    Pre { names: &["dbrx", "smaug-bpe", "lfm2"],            words: Words::Cl100k(r"\p{N}{1,3}"), whole_words: false, composed: false },
    Pre { names: &["qwen2", "deepseek-r1-qwen"],            words: Words::Cl100k(r"\p{N}"),      whole_words: false, composed: true },
];

pub fn find(name: Option<&str>) -> Result<&'static Pre, String> {
    let name = name.unwrap_or("(none)");
    let found = PRES.iter().find(|pre| pre.names.contains(&name));
    found.ok_or_else(|| {
        let known: Vec<_> = PRES.iter().flat_map(|pre| pre.names).copied().collect();
        format!(
            "its pre-tokenizer `{name}` is not one of {}; give the model's tokenizer.json",
            known.join(", ")
        )
    })
}

impl Pre {
    pub fn splits(&self) -> tokenizers::Result<Sequence> {
        let bytes = |words| ByteLevel::new(false, false, words).into();
        Ok(Sequence::new(match self.words {
            Words::Gpt2 => vec![bytes(true)],
            Words::Gpt2Digits => vec![Digits::new(true).into(), bytes(true)],
            Words::Cl100k(numbers) => {
                let words = [
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                    r"[^\r\n\p{L}\p{N}]?\p{L}+",
                    numbers,
                    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
                    r"\s*[\r\n]+",
                    r"\s+(?!\S)",
                    r"\s+",
                ];
                let pattern = SplitPattern::Regex(words.join("|"));
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
                vec![split.into(), bytes(false)]
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::tokenizer::{OffsetReferential, OffsetType};
    use tokenizers::{PreTokenizedString, PreTokenizer};

    fn words(name: &str, text: &str) -> Vec<String> {
        let pre = find(Some(name)).expect("a row of the table");
        let mut cut = PreTokenizedString::from(text);
        let splits = pre.splits().expect("valid patterns");
        splits.pre_tokenize(&mut cut).expect("a text to cut");
        let parts = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        parts.iter().map(|(word, ..)| word.to_string()).collect()
    }

    /// In the byte-level alphabet, \u{120} is a space and \u{10a} a newline.
    #[test]
    fn each_row_cuts_as_its_model_does() {
        const TEXT: &str = "It'S 2024,\n\n ok";
        for (name, expected) in [
            ("gpt-2", "It|'|S|\u{120}2024|,|\u{10a}\u{10a}|\u{120}ok"),
            (
                "smollm",
                "It|'|S|\u{120}|2|0|2|4|,|\u{10a}\u{10a}|\u{120}ok",
            ),
            ("llama-bpe", "It|'S|\u{120}|202|4|,\u{10a}\u{10a}|\u{120}ok"),
            ("qwen2", "It|'S|\u{120}|2|0|2|4|,\u{10a}\u{10a}|\u{120}ok"),
        ] {
            assert_eq!(words(name, TEXT).join("|"), expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_way_is_told() {
        for name in [None, Some("default")] {
            let reason = find(name).err();
            assert!(reason.is_some_and(|r| r.contains("smollm") && r.contains("tokenizer.json")));
        }
    }
}
