//! Adapters as a table and as JSON.

use candle_core::webgpu_backend::runtime::{self, AdapterReport};
use candle_examples::device::{DeviceArgs, DeviceKind};
use clap::Parser;
use serde_json::{json, Value};

/// Lists the WebGPU adapters, and the features of the selected one that Candle uses.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// Select this adapter: its number or part of its name
    #[arg(long, value_name = "NAME|INDEX")]
    adapter: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let adapters = runtime::adapters()?;
    let wanted = DeviceArgs {
        device: DeviceKind::Webgpu,
        adapter: args.adapter,
    };
    // The list is useful even if no device opens.
    let device = wanted.open();
    let chosen = match &device {
        Ok(device) => Ok(device.as_webgpu_device()?.adapter()),
        Err(e) => Err(e.to_string()),
    };
    if args.json {
        let adapters: Vec<_> = adapters.iter().map(json).collect();
        let (chosen, error) = match chosen {
            Ok(adapter) => (Some(json(adapter)), None),
            Err(e) => (None, Some(e)),
        };
        println!(
            "{}",
            json!({ "adapters": adapters, "chosen": chosen, "error": error })
        );
        return Ok(());
    }
    println!(
        "{:>2}  {:<44} {:<10} {:<11} driver",
        "#", "adapter", "backend", "type"
    );
    for a in &adapters {
        let (ordinal, name) = (a.ordinal, shorten(&a.name, 44));
        println!(
            "{ordinal:>2}  {name:<44} {:<10} {:<11} {}",
            a.backend, a.kind, a.driver
        );
    }
    if adapters.is_empty() {
        println!("none");
    }
    println!();
    match chosen {
        Ok(adapter) => print_chosen(adapter),
        Err(e) => anyhow::bail!(e),
    }
    Ok(())
}

fn print_chosen(a: &AdapterReport) {
    println!("Candle uses {} ({}, {})", a.name, a.backend, a.kind);
    let row = |name: &str, value: String| println!("  {name:<22} {value}");
    row("memory", a.memory.map_or("unknown".to_string(), bytes));
    row("largest buffer", bytes(a.max_buffer_size));
    row("largest binding", bytes(a.max_storage_buffer_binding_size));
    row("binding alignment", bytes(u64::from(a.storage_alignment)));
    row(
        "workgroup memory",
        bytes(u64::from(a.max_workgroup_storage)),
    );
    row("workgroup invocations", a.max_invocations.to_string());
    let subgroup = match a.subgroup {
        Some((min, max)) if min == max => min.to_string(),
        Some((min, max)) => format!("{min} to {max}"),
        None => "not used".to_string(),
    };
    row("subgroup size", subgroup);
    row("features", list(a.features.iter().copied()));
    let cooperative = a.cooperative.iter().map(String::as_str);
    row("cooperative matrices", list(cooperative));
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        return "none".to_string();
    }
    items.join(", ")
}

/// With a binary unit if the number is a whole multiple of it.
fn bytes(n: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let fitting = units.iter().find(|(shift, _)| n >= 1 << shift);
    match fitting {
        Some((shift, unit)) if n.is_multiple_of(1 << shift) => format!("{} {unit}", n >> shift),
        Some((shift, unit)) => format!("{:.2} {unit}", n as f64 / (1u64 << shift) as f64),
        None => format!("{n} B"),
    }
}

fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_string();
    }
    let head: String = text.chars().take(length - 3).collect();
    format!("{head}...")
}

fn json(a: &AdapterReport) -> Value {
    json!({
        "ordinal": a.ordinal,
        "name": a.name,
        "backend": a.backend,
        "type": a.kind,
        "driver": a.driver,
        "memory": a.memory,
        "max_buffer_size": a.max_buffer_size,
        "max_storage_buffer_binding_size": a.max_storage_buffer_binding_size,
        "max_workgroup_storage": a.max_workgroup_storage,
        "max_invocations": a.max_invocations,
        "storage_alignment": a.storage_alignment,
        "features": a.features,
        "subgroup": a.subgroup.map(|(min, max)| json!({ "min": min, "max": max })),
        "cooperative": a.cooperative,
    })
}
