//! The error type for everything that can fail between the command line and the first token.

use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error(
        "unknown model `{name}`: it is not an existing path, a hub id (org/name) or one of {known}"
    )]
    UnknownModel { name: String, known: String },

    #[error("{what} not found: {path}")]
    Missing { what: &'static str, path: PathBuf },

    #[error("{path} does not match its sha256 and was deleted\n  expected {expected}\n  got      {got}\nrun the command again to download it again")]
    Checksum {
        path: PathBuf,
        expected: String,
        got: String,
    },

    #[error("{path} is truncated: it should have {expected} bytes and has {got}")]
    Truncated {
        path: PathBuf,
        expected: u64,
        got: u64,
    },

    #[error("{path} is not a usable checkpoint: {reason}")]
    Checkpoint { path: PathBuf, reason: String },

    #[error("{model} does not fit on {device}: {reason}")]
    DoesNotFit {
        model: String,
        device: String,
        reason: String,
    },

    #[error("{path} is not a usable tokenizer: {reason}")]
    Tokenizer { path: PathBuf, reason: String },

    #[error("the chat template does not work: {reason}")]
    Template { reason: String },

    #[error("{path} has neither a chat template nor the tokens of ChatML; give a template with --template")]
    NoTemplate { path: PathBuf },

    #[error("{path} is not usable audio: {reason}")]
    Audio { path: PathBuf, reason: String },

    #[error("this example does not support {what}")]
    Unsupported { what: String },

    #[error("{package} does not contain {member}")]
    NotInPackage { package: String, member: String },

    #[error("cannot download {package}: {reason}")]
    Package { package: String, reason: String },

    #[error("cannot download {file} of {repo} from the hub: {reason}")]
    Hub {
        repo: String,
        file: String,
        reason: String,
    },

    #[error("cannot get {file}; tried\n{}", .tried.iter().map(|t| format!("  - {t}")).collect::<Vec<_>>().join("\n"))]
    NoSource { file: String, tried: Vec<String> },

    #[error("the prompt has {tokens} tokens, the model's context only {context}")]
    PromptTooLong { tokens: usize, context: usize },

    #[error("the prompt is empty and the tokenizer adds no token: give a prompt")]
    PromptEmpty,

    #[error("this program was built without `{0}`: build it with `--features {0}`")]
    NotCompiled(&'static str),

    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },

    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    /// For `map_err`: adds the path to an I/O error.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
