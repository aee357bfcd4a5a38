//! xtask/tidy.toml: exceptions with their reasons, and names that must not return.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use toml::Spanned;

use super::{Finding, What, CONFIG};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default, rename = "exception")]
    exceptions: Vec<Spanned<Exception>>,
    /// Former identifiers and their replacements.
    #[serde(default)]
    pub identifiers: BTreeMap<String, String>,
    /// Former names of files and folders, and their replacements.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    #[serde(skip)]
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    path: String,
    what: What,
    limit: Option<usize>,
    reason: String,
}

impl Config {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(text).with_context(|| path.display().to_string())
    }

    pub fn parse(text: String) -> Result<Self> {
        let config: Config = toml::from_str(&text)?;
        Ok(Self { text, ..config })
    }

    /// Removes the findings that exceptions cover, and adds errors in the exceptions.
    pub fn judge(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut used = vec![false; self.exceptions.len()];
        let mut errors = Vec::new();
        for mut finding in findings {
            let covers = |exception: &Spanned<Exception>| {
                let exception = exception.as_ref();
                exception.what == finding.what && exception.path == finding.path
            };
            let Some(index) = self.exceptions.iter().position(covers) else {
                errors.push(finding);
                continue;
            };
            used[index] = true;
            let limit = self.exceptions[index].as_ref().limit;
            if let (Some(size), Some(limit)) = (finding.size, limit) {
                if size > limit {
                    finding.text += &format!("; its exception allows {limit}");
                    errors.push(finding);
                }
            } else if finding.size.is_some() != limit.is_some() {
                let text = match limit {
                    None => "the exception has no limit; add one",
                    Some(_) => "the exception has a limit, but the error has no size; remove it",
                };
                errors.push(self.error(index, text));
            }
        }
        for (index, used) in used.into_iter().enumerate() {
            if !used {
                errors.push(self.error(index, "the exception is not needed; remove it"));
            }
            if self.exceptions[index].as_ref().reason.trim().is_empty() {
                errors.push(self.error(index, "the exception has no reason; give one"));
            }
        }
        errors
    }

    fn error(&self, index: usize, text: &str) -> Finding {
        let start = self.exceptions[index].span().start;
        let line = self.text[..start].lines().count() + 1;
        let path = &self.exceptions[index].as_ref().path;
        let text = text.replacen("exception", &format!("exception of {path}"), 1);
        Finding::new(What::Exception, CONFIG, line, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: &str =
        "[[exception]]\npath = 'a.rs'\nwhat = 'length'\nlimit = 450\nreason = 'one table'\n";

    fn judged(config: &str, findings: Vec<Finding>) -> Vec<(What, usize)> {
        let config = Config::parse(config.to_owned()).expect("valid");
        let errors = config.judge(findings).into_iter();
        errors.map(|e| (e.what, e.line)).collect()
    }

    fn length(size: usize) -> Vec<Finding> {
        vec![Finding::new(What::Length, "a.rs", 1, "too long").sized(size)]
    }

    #[test]
    fn an_exception_covers_its_kind_up_to_its_limit() {
        assert_eq!(judged(LENGTH, length(450)), []);
        assert_eq!(judged(LENGTH, length(451)), [(What::Length, 1)]);
        let doc = Finding::new(What::Doc, "a.rs", 1, "no doc");
        let both = [(What::Doc, 1), (What::Exception, 1)];
        assert_eq!(judged(LENGTH, vec![doc]), both);
    }

    #[test]
    fn an_exception_without_use_or_reason_is_an_error() {
        let second = format!("{LENGTH}{LENGTH}");
        assert_eq!(judged(&second, length(401)), [(What::Exception, 6)]);
        let mute = LENGTH.replace("one table", " ");
        assert_eq!(judged(&mute, length(401)), [(What::Exception, 1)]);
        let free = LENGTH.replace("limit = 450\n", "");
        assert_eq!(judged(&free, length(401)), [(What::Exception, 1)]);
    }

    #[test]
    fn the_file_is_typed() {
        for wrong in ["what = 'length'", "what = 'lenght'\nlimit = 1\nreason = ''"] {
            let text = format!("[[exception]]\npath = 'a.rs'\n{wrong}\n");
            assert!(Config::parse(text).is_err(), "{wrong}");
        }
        assert!(Config::parse("[words]\n".to_owned()).is_err());
        let ours = include_str!("../../tidy.toml").to_owned();
        assert!(!Config::parse(ours).expect("valid").identifiers.is_empty());
    }
}
