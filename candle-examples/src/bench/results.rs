//! The results of a run, and the files that store them.

use crate::bench::measure::{Bench, Clock, Measured};
use crate::bench::workload::{size, Scale, Unit, Workload};
use crate::device::{describe, Description};
use crate::spread::Spread;
use anyhow::{anyhow, Result};
use candle_core::DType;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Year, month, day.
    pub date: String,
    pub device: String,
    pub adapter: Option<String>,
    pub scale: Scale,
    pub samples: u32,
    pub yardsticks: Yardsticks,
    pub rows: Vec<Row>,
}

/// The device's best rates, to which others are compared. `None` if not needed or if the op failed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Yardsticks {
    /// A plain copy, in GB/s.
    pub copy: Option<f64>,
    /// An f32 matmul, in TFLOP/s.
    pub gemm: Option<f64>,
}

/// One row of the report.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub op: String,
    pub size: String,
    pub dtype: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    Timed(Timed),
    Failed { error: String },
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Timed {
    /// Seconds per run of the op.
    pub seconds: Spread,
    /// The clock of `seconds`. Older files use the wall clock.
    #[serde(default)]
    pub clock: Clock,
    /// Wall-clock seconds, if `clock` is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Spread>,
    /// The rate at the median.
    pub rate: f64,
    pub unit: Unit,
    /// The rate over the device's best rate in the same unit.
    pub ratio: Option<f64>,
    /// Dispatches per run of the op, if the device counts them.
    pub dispatches: Option<f64>,
}

impl Yardsticks {
    fn of(&self, unit: Unit) -> Option<f64> {
        match unit {
            Unit::Bytes => self.copy,
            Unit::Flops => self.gemm,
        }
    }

    pub fn judge(&self, measured: &Measured) -> Timed {
        let Measured {
            seconds,
            clock,
            wall,
            work,
            dispatches,
        } = *measured;
        let rate = work.rate(seconds.median);
        Timed {
            seconds,
            clock,
            wall: (clock != Clock::Wall).then_some(wall),
            rate,
            unit: work.unit,
            ratio: self.of(work.unit).map(|best| rate / best),
            dispatches,
        }
    }
}

impl Row {
    pub fn new(workload: &Workload, scale: Scale, dtype: DType, outcome: Outcome) -> Self {
        Self {
            name: workload.name(scale, dtype),
            op: workload.op.to_string(),
            size: size(workload.dims(scale)),
            dtype: dtype.as_str().to_string(),
            outcome,
        }
    }

    /// `None` if the op failed.
    pub fn timed(&self) -> Option<&Timed> {
        match &self.outcome {
            Outcome::Timed(timed) => Some(timed),
            Outcome::Failed { .. } => None,
        }
    }
}

/// Where the JSON begins and ends in a report of webgpu-info.
const BEGIN: &str = "```json\n";
const END: &str = "\n```";

impl Results {
    /// Today's results of `bench`, still without rows.
    pub fn new(bench: &Bench, yardsticks: Yardsticks) -> Self {
        let Description { device, adapter } = describe(&bench.device);
        Self {
            date: jiff::Zoned::now().date().to_string(),
            device,
            adapter,
            scale: bench.scale,
            samples: bench.samples,
            yardsticks,
            rows: Vec::new(),
        }
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Device and date in one line.
    pub fn title(&self) -> String {
        let description = Description {
            device: self.device.clone(),
            adapter: self.adapter.clone(),
        };
        format!("{description}, {}", self.date)
    }

    /// Reads a file of [`save`](Self::save), or a text with a [`block`](Self::block).
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| anyhow!("{}: {e}", path.display()))?;
        // GitHub returns the text of an issue with CR LF.
        let text = text.replace("\r\n", "\n");
        let block = || Some(text.split_once(BEGIN)?.1.split_once(END)?.0);
        serde_json::from_str(block().unwrap_or(&text))
            .map_err(|e| anyhow!("{} contains no results of bench: {e}", path.display()))
    }

    /// The results as a fenced block of Markdown.
    pub fn block(&self) -> Result<String> {
        Ok(format!("{BEGIN}{}{END}\n", serde_json::to_string(self)?))
    }

    /// Writes to `folder`, which is created if necessary; returns the file's path.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(self.file_name());
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|e| anyhow!("cannot write {}: {e}", path.display()))?;
        Ok(path)
    }

    fn file_name(&self) -> String {
        // Without an adapter, the CPU computes.
        let adapter = self.adapter.as_deref().unwrap_or(std::env::consts::ARCH);
        let scale = match self.scale {
            Scale::Small => "-small",
            Scale::Full => "",
        };
        let (date, device) = (&self.date, &self.device);
        format!("{date}-{device}-{}{scale}.json", slug(adapter))
    }
}

/// Letters and digits, joined by single dashes.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|w| !w.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn results(rows: Vec<Row>) -> Results {
        Results {
            date: "2026-01-31".to_string(),
            device: "webgpu".to_string(),
            adapter: Some("Big GPU (TM) 9, vulkan".to_string()),
            scale: Scale::Full,
            samples: 3,
            yardsticks: Yardsticks {
                copy: Some(512.),
                gemm: None,
            },
            rows,
        }
    }

    fn row(name: &str, outcome: Outcome) -> Row {
        let mut words = name.split(' ').map(str::to_string);
        let mut word = || words.next().unwrap();
        Row {
            name: name.to_string(),
            op: word(),
            size: word(),
            dtype: word(),
            outcome,
        }
    }

    /// A row that took `seconds` for 2 GB.
    pub fn timed(name: &str, seconds: f64) -> Row {
        let outcome = Outcome::Timed(Timed {
            seconds: Spread {
                median: seconds,
                min: seconds / 2.,
                max: seconds * 2.,
            },
            clock: Clock::Gpu,
            wall: Some(Spread {
                median: seconds * 1.5,
                min: seconds,
                max: seconds * 3.,
            }),
            rate: 2. / seconds,
            unit: Unit::Bytes,
            ratio: Some(2. / seconds / 512.),
            dispatches: Some(1.5),
        });
        row(name, outcome)
    }

    pub fn failed(name: &str) -> Row {
        let error = "no memory\nat all".to_string();
        row(name, Outcome::Failed { error })
    }

    #[test]
    fn files_hold_what_was_found() {
        let dir = tempfile::tempdir().unwrap();
        let written = results(vec![timed("add 2x3 f32", 0.25), failed("exp 2x3 f16")]);
        let path = written.save(&dir.path().join("a/b")).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, "2026-01-31-webgpu-big-gpu-tm-9-vulkan.json");
        assert_eq!(Results::load(&path).unwrap(), written);
        let small = Results {
            adapter: None,
            scale: Scale::Small,
            ..written
        };
        assert!(small.file_name().ends_with("-small.json"));
    }

    #[test]
    fn a_report_holds_results() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.md");
        let written = results(vec![timed("add 2x3 f32", 0.25), failed("exp 2x3 f16")]);
        let text = format!(
            "# GPU\n```text\nx\n```\n{}\nend\n",
            written.block().unwrap()
        );
        for text in [text.replace('\n', "\r\n"), text] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Results::load(&path).unwrap(), written);
        }
    }

    #[test]
    fn a_file_that_is_something_else_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        let error = || Results::load(&path).unwrap_err().to_string();
        assert!(error().contains("x.json"));
        std::fs::write(&path, "{}").unwrap();
        assert!(error().contains("no results of bench"));
    }
}
