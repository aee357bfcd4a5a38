//! What `webgpu-info --probe` found: features whose use ends the process, hangs or gives wrong results. A file in the cache folder has a
//! line for each, by adapter, driver and version of this crate. A device does without them.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use crate::device::adapter::AdapterReport;
use crate::device::env::{cache_folder, CACHE_VAR};
use crate::device::features::Refused;
use crate::device::settings::known_features;

const FILE: &str = "probe.tsv";

/// The beginning of an adapter's lines.
fn key(report: &AdapterReport) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let fields = [version, &report.backend, &report.name, &report.driver];
    fields.map(|field| one_field(field) + "\t").concat()
}

fn one_field(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Replaces what is known of an adapter by these features and their faults. Returns the file's path.
pub fn remember_probe(report: &AdapterReport, faults: &[(&str, String)]) -> Result<PathBuf> {
    let missing = || Error::new(ErrorKind::NotFound, format!("{CACHE_VAR} is empty"));
    remember(&cache_folder().ok_or_else(missing)?, report, faults)
}

fn remember(folder: &Path, report: &AdapterReport, faults: &[(&str, String)]) -> Result<PathBuf> {
    let (path, key) = (folder.join(FILE), key(report));
    let old = fs::read_to_string(&path).unwrap_or_default();
    let mut lines: Vec<_> = old.lines().filter(|line| !line.starts_with(&key)).collect();
    let new = faults.iter();
    let new: Vec<_> = new
        .map(|(name, why)| format!("{key}{name}\t{}", one_field(why)))
        .collect();
    lines.extend(new.iter().map(String::as_str));
    fs::create_dir_all(folder)?;
    fs::write(&path, lines.join("\n") + "\n")?;
    Ok(path)
}

/// The features of an adapter that a probe found faulty, with the reasons.
pub(crate) fn faults(folder: Option<&Path>, report: &AdapterReport) -> Refused {
    let text = folder.and_then(|folder| fs::read_to_string(folder.join(FILE)).ok());
    let key = key(report);
    let of_line = |line: &str| {
        let (name, why) = line.strip_prefix(&key)?.split_once('\t')?;
        let name = known_features().find(|known| *known == name)?;
        Some((name, format!("webgpu-info --probe: {why}")))
    };
    text.unwrap_or_default()
        .lines()
        .filter_map(of_line)
        .collect()
}
