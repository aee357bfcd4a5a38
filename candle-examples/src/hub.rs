//! Files of the Hugging Face hub, through hf-hub and its cache.
//!
//! One short request per process checks whether the hub can be reached, so that an offline machine does not wait for
//! timeouts.

use crate::error::{Error, Result};
use crate::package;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Cache, Repo};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

const ENDPOINT: &str = "https://huggingface.co";

/// Downloads a file of a model repository.
pub fn get(repo: &str, file: &str) -> Result<PathBuf> {
    if let Some(path) = Cache::from_env().repo(Repo::model(repo.into())).get(file) {
        return Ok(path);
    }
    let error = |reason: String| Error::Hub {
        repo: repo.to_string(),
        file: file.to_string(),
        reason,
    };
    reachable().map_err(error)?;
    open(repo)
        .and_then(|api| api.download(file))
        .map_err(|e| error(e.to_string()))
}

/// [`get`], or `None` if the repository has no such file.
pub fn get_optional(repo: &str, file: &str, files: &[String]) -> Result<Option<PathBuf>> {
    files
        .iter()
        .any(|f| f == file)
        .then(|| get(repo, file))
        .transpose()
}

/// The file names of a repository; offline, of its cached files.
pub fn files(repo: &str) -> Result<Vec<String>> {
    let error = |reason: String| Error::Hub {
        repo: repo.to_string(),
        file: "the list of files".to_string(),
        reason,
    };
    let reason = match reachable() {
        Ok(()) => match open(repo).and_then(|api| api.info()) {
            Ok(info) => return Ok(info.siblings.into_iter().map(|s| s.rfilename).collect()),
            Err(e) => e.to_string(),
        },
        Err(reason) => reason,
    };
    let cached = Cache::from_env().repo(Repo::model(repo.into()));
    // An empty name gives the folder of cached files.
    let folder = cached.get("");
    let entries = folder.and_then(|dir| std::fs::read_dir(dir).ok());
    let names: Vec<_> = entries
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    if names.is_empty() {
        return Err(error(reason));
    }
    Ok(names)
}

fn open(repo: &str) -> Result<ApiRepo, hf_hub::api::sync::ApiError> {
    Ok(ApiBuilder::from_env().build()?.model(repo.to_string()))
}

fn reachable() -> Result<(), String> {
    static REACHABLE: OnceLock<Result<(), String>> = OnceLock::new();
    REACHABLE.get_or_init(probe).clone()
}

fn probe() -> Result<(), String> {
    if std::env::var("HF_HUB_OFFLINE").is_ok_and(|v| !v.is_empty() && v != "0") {
        return Err("HF_HUB_OFFLINE is set".to_string());
    }
    let endpoint = std::env::var("HF_ENDPOINT").unwrap_or_else(|_| ENDPOINT.to_string());
    let agent = package::agent(Duration::from_secs(3), Some(Duration::from_secs(6)));
    match agent.head(&endpoint).call() {
        // Any HTTP response means that the hub can be reached. Whether a file exists is checked later.
        Ok(_) | Err(ureq::Error::StatusCode(_)) => Ok(()),
        Err(e) => Err(format!("{endpoint} cannot be reached: {e}")),
    }
}
