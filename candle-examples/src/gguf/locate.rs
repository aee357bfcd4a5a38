//! From the value of `--model` to a local GGUF file.

use crate::catalogue::{resolve, Source, Wanted};
use crate::error::{Error, Result};
use crate::fetch::{cache_dir, Fetcher};
use crate::hub;
use std::path::PathBuf;

/// Preferred quantizations if a repository has several: small, with little loss of quality.
const PREFERRED: [&str; 5] = ["q4_k_m", "q4_0", "q4_1", "q5_k_m", "q8_0"];

/// Finds `model` (a catalogue name, a path, or a hub id with an optional quantization, `org/name:Q8_0`) and downloads
/// missing files.
pub fn locate(model: &str) -> Result<PathBuf> {
    let (model, quantization) = match model.rsplit_once(':') {
        Some((id, quantization)) if id.contains('/') && !quantization.contains(['/', '\\']) => {
            (id, Some(quantization))
        }
        _ => (model, None),
    };
    match resolve(model)? {
        Wanted::Entry(entry) => match &entry.source {
            Source::Gguf(file) => Fetcher::new(cache_dir())?.get(file),
            Source::HubGguf(id) => locate(id),
            Source::Llama2c { .. } | Source::Hub(_) => Err(Error::Unsupported {
                what: format!(
                    "{}, which is not a GGUF file: use the example llama",
                    entry.name
                ),
            }),
        },
        Wanted::Path(path) => Ok(path),
        Wanted::Hub(repo) => {
            let files = hub::files(&repo)?;
            let file = choose(&files, quantization).ok_or_else(|| Error::Hub {
                file: quantization.unwrap_or("a single-file .gguf").to_string(),
                reason: format!("it contains {}", files.join(", ")),
                repo: repo.clone(),
            })?;
            hub::get(&repo, file)
        }
    }
}

/// Finds a tokenizer.json: a path, or a hub id.
pub fn locate_tokenizer(given: &str) -> Result<PathBuf> {
    match resolve(given)? {
        Wanted::Path(path) => Ok(path),
        Wanted::Hub(repo) => hub::get(&repo, "tokenizer.json"),
        Wanted::Entry(entry) => Err(Error::Unsupported {
            what: format!("{} as a tokenizer", entry.name),
        }),
    }
}

fn choose<'a>(files: &'a [String], quantization: Option<&str>) -> Option<&'a str> {
    // Candle cannot read split files; `mmproj` files contain vision projectors.
    let usable = |name: &&String| {
        let name = name.to_lowercase();
        name.ends_with(".gguf") && !name.contains("-of-") && !name.contains("mmproj")
    };
    let usable: Vec<_> = files.iter().filter(usable).collect();
    let with = |part: &str| {
        let part = part.to_lowercase();
        let mut named = usable.iter().filter(|f| f.to_lowercase().contains(&part));
        named.next().map(|name| name.as_str())
    };
    match quantization {
        Some(quantization) => with(quantization),
        None => PREFERRED
            .into_iter()
            .find_map(with)
            .or(usable.first().map(|name| name.as_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantization_is_chosen() {
        let files = [
            "README.md",
            "m-BF16-00001-of-00002.gguf",
            "mmproj-Q4_0.gguf",
            "m-F16.gguf",
            "m-Q8_0.gguf",
            "m-Q4_0.gguf",
        ];
        let files = files.map(str::to_string);
        assert_eq!(choose(&files, None), Some("m-Q4_0.gguf"));
        assert_eq!(choose(&files, Some("q8_0")), Some("m-Q8_0.gguf"));
        assert_eq!(choose(&files, Some("Q6_K")), None);
        assert_eq!(choose(&files[..4], None), Some("m-F16.gguf"));
        assert_eq!(choose(&files[..2], None), None);
    }

    #[test]
    fn what_is_no_gguf_is_refused() {
        assert!(matches!(
            locate("stories15m"),
            Err(Error::Unsupported { .. })
        ));
        assert!(matches!(
            locate("nowhere/m.gguf"),
            Err(Error::Missing { .. })
        ));
    }
}
