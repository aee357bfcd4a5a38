//! The start of a run: every rank tells the others what it runs, or why it cannot. They begin only if all agree.

use crate::world::World;
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of messages between ranks, beside that of the program.
const PROTOCOL: u32 = 1;

/// What a rank runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    /// The options that decide the results.
    pub options: Value,
    /// The fingerprint of the model's files.
    pub model: u64,
    /// The dtype of messages between ranks.
    pub dtype: String,
    pub device: String,
    /// Device memory that tensors can have, in bytes, if known.
    pub memory: Option<u64>,
    /// Why this rank cannot run.
    pub error: Option<String>,
}

impl Report {
    pub fn new(options: Value) -> Self {
        Self {
            version: format!("{} (protocol {PROTOCOL})", env!("CARGO_PKG_VERSION")),
            options,
            model: 0,
            dtype: String::new(),
            device: String::new(),
            memory: None,
            error: None,
        }
    }
}

/// Exchanges reports. The same error on all ranks if one cannot run or runs something else.
pub fn agree(world: &World, own: &Report) -> Result<Vec<Report>> {
    let mine = serde_json::to_vec(own)?;
    let mut reports = Vec::new();
    let mut problems = Vec::new();
    for (rank, bytes) in world.exchange(&mine, "agreeing").iter().enumerate() {
        match serde_json::from_slice(bytes) {
            Ok(report) => reports.push(report),
            Err(_) => problems.push(format!("{}: another version", world.name(rank))),
        }
    }
    if problems.is_empty() {
        problems = differences(&reports, |rank| world.name(rank));
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(reports)
}

/// What keeps these ranks from running together, a line each.
fn differences(reports: &[Report], name: impl Fn(usize) -> String) -> Vec<String> {
    let failed = reports.iter().enumerate();
    let failed = failed.filter_map(|(rank, report)| Some((rank, report.error.as_ref()?)));
    let failed: Vec<_> = failed
        .map(|(rank, error)| format!("{}: {error}", name(rank)))
        .collect();
    let Some(first) = reports.first().filter(|_| failed.is_empty()) else {
        return failed;
    };
    let mut lines = Vec::new();
    for (rank, report) in reports.iter().enumerate() {
        let mut differs = |what: &str, mine: String, theirs: String| {
            if mine != theirs {
                let (rank, zero) = (name(rank), name(0));
                lines.push(format!("{rank}: {what} {mine}, but {theirs} on {zero}"));
            }
        };
        let model = |report: &Report| format!("{:016x}", report.model);
        differs("version", report.version.clone(), first.version.clone());
        differs(
            "options",
            report.options.to_string(),
            first.options.to_string(),
        );
        differs("a model with hash", model(report), model(first));
        differs("messages of", report.dtype.clone(), first.dtype.clone());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_names_its_rank() {
        let report = Report::new(Value::Null);
        let name = |rank: usize| format!("rank {rank} on host{rank}");
        let with = |change: fn(&mut Report)| {
            let mut other = report.clone();
            change(&mut other);
            differences(&[report.clone(), report.clone(), other], name).join("\n")
        };
        assert_eq!(with(|_| ()), "");
        assert!(with(|r| r.version = "0".into()).starts_with("rank 2 on host2: version 0, but"));
        assert!(with(|r| r.model = 1).contains("0000000000000001, but 0000000000000000 on rank 0"));
        assert!(with(|r| r.options = Value::Bool(true)).contains("options true"));
        let failed = with(|r| r.error = Some("no adapter".into()));
        assert_eq!(failed, "rank 2 on host2: no adapter");
    }
}
