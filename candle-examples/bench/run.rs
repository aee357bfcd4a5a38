//! Runs the selected rows.

use crate::measure::Bench;
use crate::results::{Outcome, Results, Row, Yardsticks};
use crate::workload::{all, Scale, Unit, Workload};
use crate::{ops, table, BenchArgs};
use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device};
use candle_examples::device::{describe, is_software, DeviceKind};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A row before it is measured.
type Chosen = (&'static Workload, DType);

pub fn main(args: &BenchArgs) -> Result<()> {
    if args.list {
        return list(args);
    }
    let device = args.device.open()?;
    let scale = args.scale.unwrap_or_else(|| natural(&device));
    let chosen = choose(args, scale)?;
    let description = describe(&device);
    eprintln!("device: {description}");
    let bench = Bench::new(device, scale, args.samples, args.wall);
    let mut results = Results {
        date: jiff::Zoned::now().date().to_string(),
        device: description.device,
        adapter: description.adapter,
        scale,
        samples: args.samples,
        yardsticks: yardsticks(&bench),
        rows: Vec::new(),
    };
    let mut stdout = io::stdout();
    if !args.json {
        writeln!(stdout, "{}", table::head(&results))?;
    }
    for (workload, dtype) in chosen {
        let outcome = match bench.measure(workload, dtype) {
            Ok(measured) => Outcome::Timed(results.yardsticks.judge(&measured)),
            Err(e) => Outcome::Failed {
                error: e.to_string(),
            },
        };
        let row = Row::new(workload, scale, dtype, outcome);
        if !args.json {
            writeln!(stdout, "{}", table::line(&row))?;
        }
        results.rows.push(row);
    }
    if args.json {
        writeln!(stdout, "{}", serde_json::to_string(&results)?)?;
    }
    if let Some(folder) = &args.save {
        let path = match folder {
            Some(folder) => results.save(folder)?,
            None => results.save(&default_folder()?)?,
        };
        eprintln!("written: {}", path.display());
    }
    Ok(())
}

/// The scale at which the device finishes within a minute or two.
fn natural(device: &Device) -> Scale {
    match device.is_cpu() || is_software(device) {
        true => Scale::Small,
        false => Scale::Full,
    }
}

/// The rows that match any filter; all rows without filters.
fn choose(args: &BenchArgs, scale: Scale) -> Result<Vec<Chosen>> {
    let rows = all().flat_map(|w| w.dtypes.iter().map(move |dtype| (w, *dtype)));
    let fits = |(workload, dtype): &Chosen| {
        let name = workload.name(scale, *dtype);
        args.filter.is_empty() || args.filter.iter().any(|text| name.contains(text))
    };
    let chosen: Vec<_> = rows.filter(fits).collect();
    let filters = args.filter.join("` nor `");
    ensure!(
        !chosen.is_empty(),
        "no row's name contains `{filters}`: --list prints the names"
    );
    Ok(chosen)
}

/// Opens no device, so the default scale is small only for an explicit `--device cpu`.
fn list(args: &BenchArgs) -> Result<()> {
    let scale = args.scale.unwrap_or(match args.device.device {
        DeviceKind::Cpu => Scale::Small,
        _ => Scale::Full,
    });
    let mut stdout = io::stdout();
    for (workload, dtype) in choose(args, scale)? {
        writeln!(stdout, "{}", workload.name(scale, dtype))?;
    }
    Ok(())
}

/// The device's best rates. Failures are ignored here, since the same rows report them later.
fn yardsticks(bench: &Bench) -> Yardsticks {
    let best = |op: &str, unit: Unit| {
        let rows = all().filter(|w| w.op == op);
        let measured = rows.filter_map(|w| bench.measure(w, DType::F32).ok());
        let measured = measured.filter(|m| m.work.unit == unit);
        let rates = measured.map(|m| m.work.rate(m.seconds.median));
        rates.reduce(f64::max)
    };
    Yardsticks {
        copy: best(ops::COPY, Unit::Bytes),
        gemm: best(ops::GEMM, Unit::Flops),
    }
}

fn default_folder() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.filter(|root| root.is_dir());
    let root = root.context("the repository has moved since the build: use --save=FOLDER")?;
    Ok(root.join("benches/results"))
}
