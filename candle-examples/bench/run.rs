//! Runs the selected rows.

use crate::BenchArgs;
use anyhow::{ensure, Context, Result};
use candle_core::DType;
use candle_examples::bench::measure::Bench;
use candle_examples::bench::results::Results;
use candle_examples::bench::table;
use candle_examples::bench::workload::{all, Scale, Workload};
use candle_examples::device::{describe, DeviceKind};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A row before it is measured.
type Chosen = (&'static Workload, DType);

pub fn main(args: &BenchArgs) -> Result<()> {
    if args.list {
        return list(args);
    }
    let device = args.device.open()?;
    let scale = args.scale.unwrap_or_else(|| Scale::natural(&device));
    let chosen = choose(args, scale)?;
    eprintln!("device: {}", describe(&device));
    let bench = Bench::new(device, scale, args.samples, args.wall);
    let mut results = Results::new(&bench, bench.yardsticks());
    let mut stdout = io::stdout();
    if !args.json {
        writeln!(stdout, "{}", table::head(&results))?;
    }
    for (workload, dtype) in chosen {
        let row = bench.row(workload, dtype, &results.yardsticks);
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

fn default_folder() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.filter(|root| root.is_dir());
    let root = root.context("the repository has moved since the build: use --save=FOLDER")?;
    Ok(root.join("benches/results"))
}
