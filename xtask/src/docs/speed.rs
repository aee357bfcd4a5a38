//! Tables of speed, from records kept by hand and files written by `cargo xtask bench --save`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{markdown, read};

const RECORDS: &str = "models.json";

pub struct Results {
    /// The whole of models.json.
    records: Value,
    /// Each bench file with its entry in models.json.
    benches: Vec<(Value, Value)>,
}

impl Results {
    pub fn read(folder: &Path) -> Result<Self> {
        let json = |path: PathBuf| -> Result<Value> {
            serde_json::from_str(&read(&path)?).with_context(|| path.display().to_string())
        };
        let records = json(folder.join(RECORDS))?;
        let benches = list(&records, "bench_files")?
            .iter()
            .map(|entry| Ok((entry.clone(), json(folder.join(text(entry, "file")?))?)));
        let benches = benches.collect::<Result<_>>()?;
        Ok(Self { records, benches })
    }

    /// README's table: selected rows of a record, with labels of their own.
    pub fn readme(&self) -> Result<String> {
        let page = field(&self.records, "readme")?;
        let id = text(page, "record")?;
        let mut records = list(&self.records, "records")?.iter();
        let record = records.find(|record| record["id"] == id);
        let record = record.with_context(|| format!("no record `{id}`"))?;
        let rows = list(record, "rows")?;
        let selected = list(page, "rows")?.iter().map(|row| {
            let at = field(row, "row")?.as_u64();
            let cells = at.and_then(|at| rows.get(at as usize));
            let mut cells = texts(cells.with_context(|| format!("`{id}` has no row {at:?}"))?)?;
            cells[0] = text(row, "label")?.to_owned();
            Ok(cells)
        });
        let selected: Vec<_> = selected.collect::<Result<_>>()?;
        Ok(markdown(
            &with_empty(texts(field(record, "columns")?)?),
            &selected,
        ))
    }

    /// docs/performance.md: every record, then every bench file.
    pub fn page(&self) -> Result<String> {
        let mut page = String::new();
        for record in list(&self.records, "records")? {
            page += &record_section(record)?;
        }
        for (entry, bench) in &self.benches {
            page += &bench_section(entry, bench)?;
        }
        Ok(page)
    }
}

fn record_section(record: &Value) -> Result<String> {
    let columns = with_empty(texts(field(record, "columns")?)?);
    let rows: Vec<_> = list(record, "rows")?
        .iter()
        .map(texts)
        .collect::<Result<_>>()?;
    let command = match text(record, "command")? {
        "" => String::new(),
        command => format!(" Command: `{command}`."),
    };
    let notes: Vec<String> = texts(field(record, "notes")?)?;
    let notes: String = notes.iter().map(|note| format!("- {note}\n")).collect();
    let end = if notes.is_empty() { "" } else { "\n" };
    Ok(format!(
        "## {}\n\n{}. Recorded in commit {}, {}.{command}\n{}\n\n{}\n{notes}{end}",
        text(record, "title")?,
        text(record, "adapter")?,
        text(record, "recorded_in")?,
        text(record, "date")?,
        text(record, "method")?,
        markdown(&columns, &rows),
    ))
}

fn bench_section(entry: &Value, bench: &Value) -> Result<String> {
    let rows = list(bench, "rows")?;
    let dtypes = ["f32", "f16", "bf16"].map(String::from);
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        let name = format!("{} {}", text(row, "op")?, text(row, "size")?);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut cells = Vec::new();
    for name in names {
        let mut row = vec![name.clone()];
        for dtype in &dtypes {
            row.push(bench_cell(bench, &format!("{name} {dtype}"))?);
        }
        cells.push(row);
    }
    Ok(format!(
        "## Single ops: {}\n\n`{}`, recorded in commit {}, {}: medians of {} samples, timed by the GPU. \
         Each input is counted as read once, each result as written once.\n\n{}\n",
        text(entry, "adapter")?,
        text(entry, "file")?,
        text(entry, "recorded_in")?,
        text(bench, "date")?,
        field(bench, "samples")?,
        markdown(&with_empty(dtypes.to_vec()), &cells),
    ))
}

/// The rate of a row and its time; empty if the file has no such row.
fn bench_cell(bench: &Value, name: &str) -> Result<String> {
    let rows = list(bench, "rows")?;
    let Some(row) = rows.iter().find(|row| row["name"] == name) else {
        return Ok(String::new());
    };
    let number = |value: &Value| {
        let number = value.as_f64();
        number.with_context(|| format!("`{name}` has a rate or time that is not a number"))
    };
    let rate = rate(number(&row["rate"])?, text(row, "unit")?);
    let seconds = number(&row["seconds"]["median"])?;
    Ok(format!("{rate}, {} us", digits(seconds * 1e6)))
}

/// Uses the unit prefix that leaves one to three digits before the decimal point.
fn rate(rate: f64, unit: &str) -> String {
    match unit {
        "GB/s" if rate >= 1000.0 => format!("{:.2} TB/s", rate / 1000.0),
        "TFLOP/s" if rate < 0.1 => format!("{} GFLOP/s", digits(rate * 1000.0)),
        _ => format!("{} {unit}", digits(rate)),
    }
}

/// Three significant digits, or the whole integer part if it is longer.
fn digits(number: f64) -> String {
    match number {
        n if n >= 99.95 => format!("{n:.0}"),
        n if n >= 9.995 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

fn with_empty(mut columns: Vec<String>) -> Vec<String> {
    columns.insert(0, String::new());
    columns
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    value
        .get(name)
        .with_context(|| format!("no field `{name}`"))
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    let text = field(value, name)?.as_str();
    text.with_context(|| format!("the field `{name}` is not a string"))
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    let list = field(value, name)?.as_array();
    list.with_context(|| format!("the field `{name}` is not a list"))
}

fn texts(value: &Value) -> Result<Vec<String>> {
    let list = value.as_array().context("not a list")?;
    let texts = list.iter().map(|v| v.as_str().map(str::to_owned));
    texts
        .collect::<Option<_>>()
        .context("not a list of strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(rate(4276.2, "GB/s"), "4.28 TB/s");
        assert_eq!(rate(313.2, "TFLOP/s"), "313 TFLOP/s");
        assert_eq!(rate(0.0033, "TFLOP/s"), "3.30 GFLOP/s");
        assert_eq!(rate(53.35, "GB/s"), "53.4 GB/s");
    }

    #[test]
    fn the_records_of_the_repository_are_complete() -> Result<()> {
        let results = Results::read(&crate::root()?.join("benches/results"))?;
        assert!(results.readme()?.contains("tok/s"));
        results.page().map(drop)
    }
}
