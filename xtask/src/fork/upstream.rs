//! The pinned release: its version, the folder in which cargo unpacked it, and its checksum.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use sha2::{Digest, Sha256};

use crate::run;

/// What upstream/Cargo.lock pins.
pub struct Pin {
    pub version: String,
    pub checksum: String,
}

impl Pin {
    pub fn read(upstream: &Path, name: &str) -> Result<Self> {
        let path = upstream.join("Cargo.lock");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read the pin {}", path.display()))?;
        let package = text
            .split("[[package]]")
            .find(|package| field(package, "name") == Some(name))
            .with_context(|| format!("{} does not pin {name}", path.display()))?;
        let get = |key| {
            field(package, key)
                .map(str::to_owned)
                .with_context(|| format!("{}: {name} has no {key}", path.display()))
        };
        Ok(Self {
            version: get("version")?,
            checksum: get("checksum")?,
        })
    }
}

fn field<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    package.lines().find_map(|line| {
        let (k, v) = line.split_once(" = ")?;
        (k == key).then(|| v.trim_matches('"'))
    })
}

/// The folder of the pinned source. Cargo downloads it if necessary and verifies the checksum of downloads. The cached
/// archive is verified again here, since it may be old.
pub fn source(upstream: &Path, name: &str, pin: &Pin) -> Result<PathBuf> {
    let source = match metadata(upstream, true) {
        Ok(text) => manifest_dir(&text, name)?,
        Err(_) => {
            let text = metadata(upstream, false).with_context(|| {
                format!(
                    "cannot get {name} {} (it is not in cargo's cache; is the package registry reachable?)",
                    pin.version
                )
            })?;
            manifest_dir(&text, name)?
        }
    };
    check_archive(&source, name, pin)?;
    Ok(source)
}

fn metadata(upstream: &Path, offline: bool) -> Result<String> {
    let mut cargo = run::cargo();
    cargo.args(["metadata", "--locked", "--format-version=1"]);
    cargo
        .arg("--manifest-path")
        .arg(upstream.join("Cargo.toml"));
    if offline {
        cargo.arg("--offline");
    }
    run::stdout(&mut cargo)
}

pub fn manifest_dir(metadata: &str, name: &str) -> Result<PathBuf> {
    let metadata: serde_json::Value = serde_json::from_str(metadata)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == name)
        .and_then(|package| package["manifest_path"].as_str())
        .with_context(|| format!("cargo metadata does not list {name}"))?;
    let dir = Path::new(manifest).parent();
    Ok(dir
        .context("a manifest has no parent folder")?
        .to_path_buf())
}

/// registry/src/INDEX/NAME-VERSION has its archive at registry/cache/INDEX/NAME-VERSION.crate.
fn check_archive(source: &Path, name: &str, pin: &Pin) -> Result<()> {
    let archive = (|| {
        let index = source.parent()?;
        let registry = index.parent()?.parent()?;
        let file = format!("{name}-{}.crate", pin.version);
        Some(registry.join("cache").join(index.file_name()?).join(file))
    })();
    let Some(bytes) = archive.as_ref().and_then(|path| fs::read(path).ok()) else {
        return Ok(()); // a vendored registry has no archives, and cargo verifies its files
    };
    let sum = hex(&Sha256::digest(bytes));
    if sum != pin.checksum {
        bail!(
            "{name} {}: the cached archive has the checksum {sum}, the lock file has {}; delete the archive and try again",
            pin.version,
            pin.checksum
        );
    }
    Ok(())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn reads_fields_of_a_lock_entry() {
        let package = "\nname = \"a\"\nversion = \"1.2.3\"\ndependencies = [\n";
        assert_eq!(field(package, "version"), Some("1.2.3"));
        assert_eq!(field(package, "checksum"), None);
    }
}
