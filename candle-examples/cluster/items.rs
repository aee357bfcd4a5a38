//! The prompts of a run.

use crate::args::Args;
use anyhow::{bail, ensure, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::path::Path;

/// One prompt or text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Position in the input.
    pub index: usize,
    pub id: String,
    pub prompt: String,
    /// The prompt's tokens, for random prompts.
    pub ids: Option<Vec<u32>>,
    /// Tells this item in this job from every other: a hash of the job, the id and the prompt. Results carry it.
    pub key: u64,
}

/// The first 8 bytes of a sha256, as a number.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Reads the items of a job. Ids default to the line's position and must differ.
pub fn read(args: &Args, vocab: usize, job: u64) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut add = |id: String, prompt: String, ids: Option<Vec<u32>>| {
        let key = hash(&[&job.to_le_bytes(), id.as_bytes(), prompt.as_bytes()]);
        items.push(Item {
            index: items.len(),
            id,
            prompt,
            ids,
            key,
        });
    };
    match &args.input {
        Some(path) => {
            for (id, prompt) in lines(path)? {
                add(id, prompt, None);
            }
        }
        None if !args.prompts.is_empty() => {
            for (at, prompt) in args.prompts.iter().enumerate() {
                add(at.to_string(), prompt.clone(), None);
            }
        }
        None if args.bench => {
            for at in 0..args.sequences {
                let ids = random(at, args.prompt_tokens, vocab);
                add(at.to_string(), String::new(), Some(ids));
            }
        }
        None => bail!("no prompts: give some, or a file with --input"),
    }
    let mut seen = HashSet::new();
    for item in &items {
        ensure!(seen.insert(&item.id), "the id `{}` occurs twice", item.id);
    }
    Ok(items)
}

/// The ids and prompts of a JSONL file.
fn lines(path: &Path) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}, line {}", path.display(), at + 1);
        let line: serde_json::Value = serde_json::from_str(line).with_context(place)?;
        let id = match &line["id"] {
            serde_json::Value::Null => found.len().to_string(),
            serde_json::Value::String(id) => id.clone(),
            id => id.to_string(),
        };
        let prompt = line.as_str().or(line["prompt"].as_str());
        let Some(prompt) = prompt.or(line["text"].as_str()) else {
            bail!("{}: no `prompt` and no `text`", place());
        };
        found.push((id, prompt.to_string()));
    }
    Ok(found)
}

/// Token ids from a fixed sequence.
fn random(seed: usize, count: usize, vocab: usize) -> Vec<u32> {
    let mut state = seed as u32 + 1;
    let next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) % vocab.max(1) as u32
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_objects_or_strings() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("in.jsonl");
        std::fs::write(
            &path,
            "{\"id\": 7, \"prompt\": \"a\"}\n\n{\"text\": \"b\"}\n\"c\"\n",
        )?;
        let found = lines(&path)?;
        let expected = [("7", "a"), ("1", "b"), ("2", "c")];
        let expected = expected.map(|(id, text)| (id.to_string(), text.to_string()));
        assert_eq!(found, expected);
        std::fs::write(&path, "{\"prompt\": \"a\"}\n{\"prompt\": 3}\n")?;
        let message = lines(&path).map_err(|e| e.to_string());
        assert!(message.is_err_and(|e| e.contains("line 2")));
        Ok(())
    }

    #[test]
    fn keys_depend_on_job_id_and_prompt() {
        let keys = [
            hash(&[b"1", b"a", b"b"]),
            hash(&[b"2", b"a", b"b"]),
            hash(&[b"1", b"ab", b""]),
        ];
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }
}
