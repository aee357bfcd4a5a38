//! Compares the formulas with measurements: the figures of one rank and of a transfer predict those of two ranks.

use crate::formula::{pipeline_all, pipeline_one, tensor, Compute, Hop};
use anyhow::{bail, ensure, Context, Result};
use candle_examples::exit::write;
use serde_json::Value;
use std::path::Path;

/// The measurements of a file.
struct Measured {
    benches: Vec<Value>,
    transfers: Vec<Value>,
}

fn number(line: &Value, key: &str) -> Result<f64> {
    let number = key
        .split('.')
        .fold(line, |value, part| &value[part])
        .as_f64();
    number.with_context(|| format!("a line has no {key}: {line}"))
}

impl Measured {
    fn read(text: &str) -> Result<Self> {
        let mut found = Self {
            benches: Vec::new(),
            transfers: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: Value = serde_json::from_str(line).context("a line is no JSON")?;
            match line.get("readback_us") {
                Some(_) => found.transfers.push(line),
                None => found.benches.push(line),
            }
        }
        Ok(found)
    }

    /// The first line of a mode.
    fn line(&self, parallel: &str, ranks: u64, at_once: impl Fn(u64) -> bool) -> Option<&Value> {
        let fits = |line: &&Value| {
            line["parallel"] == parallel
                && line["ranks"] == ranks
                && line["at_once"].as_u64().is_some_and(&at_once)
        };
        self.benches.iter().find(fits)
    }

    /// Its decoded tokens per second.
    fn rate(&self, parallel: &str, ranks: u64, at_once: impl Fn(u64) -> bool) -> Option<f64> {
        self.line(parallel, ranks, at_once)?["decode_tok_s"].as_f64()
    }

    /// The largest share of the work in a pipeline of 2 ranks.
    fn share(&self) -> Option<f64> {
        let line = self.line("pipeline", 2, |at_once| at_once > 1)?;
        let shares = line["each"].as_array()?.iter();
        shares
            .filter_map(|rank| rank["share"].as_f64())
            .reduce(f64::max)
    }

    fn layers(&self) -> Option<usize> {
        let layers = |line: &Value| line["each"][0]["layers"][1].as_u64();
        let one = self.benches.iter().filter(|line| line["ranks"] == 1);
        one.filter_map(layers).max().map(|layers| layers as usize)
    }
}

/// The row of a mode: its prediction, its measurement and their ratio.
struct Row(&'static str, f64, f64);

fn rows(measured: &Measured) -> Result<Vec<Row>> {
    let one = measured.rate("pipeline", 1, |at_once| at_once == 1);
    let one = one.context("no line of a pipeline of 1 rank with `--in-flight 1`")?;
    let transfer = measured.transfers.first();
    let transfer = transfer.context("no line of `cluster --measure-transfer`")?;
    let micros = |key: &str| Ok::<f64, anyhow::Error>(number(transfer, key)? / 1e6);
    let hop = Hop {
        readback: micros("readback_us.median")?,
        upload: micros("upload_us.median")?,
        // Bytes included: on one machine there is no link to tell them apart.
        latency: micros("mpi_us.median")?,
        transmit: 0.,
    };
    let compute = Compute {
        token: 1. / one,
        fixed: 0.,
    };
    let layers = measured.layers().context("no line of 1 rank has layers")?;
    let candidates = [
        (
            "pipeline, one sequence",
            pipeline_one(compute, hop, 2),
            measured.rate("pipeline", 2, |at_once| at_once == 1),
        ),
        (
            "pipeline, all sequences",
            pipeline_all(compute, hop, measured.share().unwrap_or(0.5)),
            measured.rate("pipeline", 2, |at_once| at_once > 1),
        ),
        (
            "tensor, one sequence",
            tensor(compute, hop, 2, layers),
            measured.rate("tensor", 2, |_| true),
        ),
    ];
    let rows = candidates.into_iter();
    Ok(rows
        .filter_map(|(name, predicted, measured)| Some(Row(name, predicted, measured?)))
        .collect())
}

pub fn run(path: &Path, within: f64) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let rows = rows(&Measured::read(&text)?)?;
    ensure!(!rows.is_empty(), "no line of 2 ranks");
    let mut table = "| 2 ranks | predicted | measured | ratio |\n|---|---|---|---|\n".to_string();
    let mut far = Vec::new();
    for Row(name, predicted, measured) in rows {
        let ratio = predicted / measured;
        table += &format!("| {name} | {predicted:.1} tok/s | {measured:.1} tok/s | {ratio:.2} |\n");
        if !(1. / within..=within).contains(&ratio) {
            far.push(name);
        }
    }
    write(&table)?;
    if !far.is_empty() {
        bail!("not within a factor of {within}: {}", far.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"parallel":"pipeline","ranks":1,"at_once":1,"decode_tok_s":100.0,"each":[{"layers":[0,32]}]}
{"parallel":"pipeline","ranks":2,"at_once":1,"decode_tok_s":95.0,"each":[{"layers":[0,16]}]}
{"parallel":"pipeline","ranks":2,"at_once":4,"decode_tok_s":180.0,"each":[{"layers":[0,17],"share":0.45},{"layers":[17,32],"share":0.55}]}
{"bytes":8192,"readback_us":{"median":50.0},"mpi_us":{"median":5.0},"upload_us":{"median":20.0}}
"#;

    #[test]
    fn two_ranks_follow_from_one() -> Result<()> {
        let rows = rows(&Measured::read(LINES)?)?;
        let [Row(_, one, _), Row(_, all, measured)] = &rows[..] else {
            bail!("{} rows", rows.len());
        };
        assert!((one - 1. / 0.01008).abs() < 1e-6, "{one}");
        assert!(
            (all - 1. / 0.00552).abs() < 1e-6 && *measured == 180.,
            "{all}"
        );
        assert!(Measured::read("{").is_err());
        Ok(())
    }
}
