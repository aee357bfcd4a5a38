//! What `webgpu-info` found out about adapters, in files of the cache folder. Each line is of an adapter with a driver and of a version of
//! this crate.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;

use crate::device::adapter::AdapterReport;
use crate::device::env::{cache_folder, CACHE_VAR};
use crate::device::features::Refused;
use crate::device::settings::known_features;

/// Features whose use ends the process, hangs or gives wrong results (`--probe`). A device does without them.
const PROBE: &str = "probe.tsv";
/// Values of variables of the environment (`--tune`). A device takes them where the environment has none.
const TUNE: &str = "tune.tsv";

/// The beginning of an adapter's lines.
fn key(report: &AdapterReport) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let fields = [version, &report.backend, &report.name, &report.driver];
    fields.map(|field| one_field(field) + "\t").concat()
}

fn one_field(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Replaces what is known of an adapter by these faulty features, each with its fault. Returns the file's path.
pub fn remember_probe<N: AsRef<str>>(
    report: &AdapterReport,
    faults: impl IntoIterator<Item = (N, String)>,
) -> Result<PathBuf> {
    remember(PROBE, report, faults)
}

/// Replaces the values of variables that devices of an adapter take. Returns the file's path.
pub fn remember_tuning<N: AsRef<str>>(
    report: &AdapterReport,
    values: impl IntoIterator<Item = (N, String)>,
) -> Result<PathBuf> {
    remember(TUNE, report, values)
}

fn remember<N: AsRef<str>>(
    file: &str,
    report: &AdapterReport,
    found: impl IntoIterator<Item = (N, String)>,
) -> Result<PathBuf> {
    let missing = || Error::new(ErrorKind::NotFound, format!("{CACHE_VAR} is empty"));
    let folder = cache_folder().ok_or_else(missing)?;
    let (path, key) = (folder.join(file), key(report));
    let old = fs::read_to_string(&path).unwrap_or_default();
    let mut lines: Vec<_> = old.lines().filter(|line| !line.starts_with(&key)).collect();
    let new = found.into_iter();
    let new: Vec<_> = new
        .map(|(name, value)| format!("{key}{}\t{}", name.as_ref(), one_field(&value)))
        .collect();
    lines.extend(new.iter().map(String::as_str));
    fs::create_dir_all(folder)?;
    fs::write(&path, lines.join("\n") + "\n")?;
    Ok(path)
}

/// What is known of an adapter: names with their values.
fn recall(file: &str, report: &AdapterReport) -> BTreeMap<String, String> {
    let text = cache_folder().and_then(|folder| fs::read_to_string(folder.join(file)).ok());
    let key = key(report);
    let of_line = |line: &str| {
        let (name, value) = line.strip_prefix(&key)?.split_once('\t')?;
        Some((name.to_string(), value.to_string()))
    };
    text.unwrap_or_default()
        .lines()
        .filter_map(of_line)
        .collect()
}

/// The features of an adapter that a probe found faulty, with the reasons.
pub(crate) fn faults(report: &AdapterReport) -> Refused {
    let found = recall(PROBE, report).into_iter();
    let known = found.filter_map(|(name, why)| {
        let name = known_features().find(|known| *known == name)?;
        Some((name, format!("webgpu-info --probe: {why}")))
    });
    known.collect()
}

/// The variables of the environment that `webgpu-info --tune` found values for on an adapter, with these values.
pub fn tuned(report: &AdapterReport) -> BTreeMap<String, String> {
    recall(TUNE, report)
}
