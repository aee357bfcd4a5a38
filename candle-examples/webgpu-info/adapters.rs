//! The adapters and the selected one's features, as text and as JSON.

use candle_core::webgpu_backend::runtime::{self, AdapterReport, FeatureState};
use candle_examples::device::DeviceArgs;
use serde_json::{json, Value};
use std::fmt::Write;

pub fn run(wanted: &DeviceArgs, as_json: bool) -> anyhow::Result<()> {
    let adapters = runtime::adapters()?;
    // The list is useful even if no device opens.
    let device = wanted.open();
    let chosen = match &device {
        Ok(device) => Ok(device.as_webgpu_device()?.runtime()),
        Err(e) => Err(e.to_string()),
    };
    if as_json {
        let adapters: Vec<_> = adapters.iter().map(json).collect();
        let (chosen, off, error) = match chosen {
            Ok(device) => {
                let off = off(device.optional_features());
                let off: serde_json::Map<_, _> =
                    off.map(|(name, why)| (name.into(), why.into())).collect();
                (Some(json(device.adapter())), Some(off), None)
            }
            Err(e) => (None, None, Some(e)),
        };
        println!(
            "{}",
            json!({ "adapters": adapters, "chosen": chosen, "off": off, "error": error })
        );
        return Ok(());
    }
    println!("{}", table(&adapters)?);
    match chosen {
        Ok(device) => print!(
            "{}",
            describe(device.adapter(), device.optional_features())?
        ),
        Err(e) => anyhow::bail!(e),
    }
    Ok(())
}

const FXC: &str = "FXC, which has neither f16 nor subgroups: ship dxcompiler.dll (docs/windows.md)";

/// A line for each adapter.
pub fn table(adapters: &[AdapterReport]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(
        text,
        "{:>2}  {:<44} {:<10} {:<11} driver",
        "#", "adapter", "backend", "type"
    )?;
    for a in adapters {
        let (ordinal, name) = (a.ordinal, shorten(&a.name, 44));
        writeln!(
            text,
            "{ordinal:>2}  {name:<44} {:<10} {:<11} {}{}",
            a.backend,
            a.kind,
            a.driver,
            same(a)
        )?;
    }
    if adapters.is_empty() {
        writeln!(text, "none")?;
    }
    Ok(text)
}

fn same(a: &AdapterReport) -> String {
    let same = a.same_gpu_as;
    same.map_or(String::new(), |best| format!(" (same GPU as {best})"))
}

/// The selected adapter and the optional features of its device.
pub fn describe(a: &AdapterReport, features: &[FeatureState]) -> Result<String, std::fmt::Error> {
    let mut text = format!("Candle uses {} ({}, {})\n", a.name, a.backend, a.kind);
    let mut row = |name: &str, value: String| writeln!(text, "  {name:<22} {value}");
    match a.compiler {
        Some("FXC") => row("HLSL compiler", FXC.into())?,
        Some(compiler) => row("HLSL compiler", compiler.into())?,
        None => {}
    }
    row("memory", a.memory.map_or("unknown".to_string(), bytes))?;
    row("largest buffer", bytes(a.max_buffer_size))?;
    row("largest binding", bytes(a.max_storage_buffer_binding_size))?;
    row("binding alignment", bytes(u64::from(a.storage_alignment)))?;
    row(
        "workgroup memory",
        bytes(u64::from(a.max_workgroup_storage)),
    )?;
    row("workgroup invocations", a.max_invocations.to_string())?;
    let subgroup = match a.subgroup {
        Some((min, max)) if min == max => min.to_string(),
        Some((min, max)) => format!("{min} to {max}"),
        None => "not used".to_string(),
    };
    row("subgroup size", subgroup)?;
    let cooperative = a.cooperative.iter().map(String::as_str);
    row("cooperative matrices", list(cooperative))?;
    let on = features.iter().filter(|f| f.off.is_none());
    row("features in use", list(on.map(|f| f.name)))?;
    for (name, why) in off(features) {
        row("not in use", format!("{name}: {why}"))?;
    }
    for (name, value) in runtime::tuned(a) {
        row("tuned", format!("{name}={value}"))?;
    }
    Ok(text)
}

/// The features that are not in use, with the reasons.
fn off(features: &[FeatureState]) -> impl Iterator<Item = (&str, &str)> {
    features
        .iter()
        .filter_map(|f| Some((f.name, f.off.as_deref()?)))
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
        "same_gpu_as": a.same_gpu_as,
        "name": a.name,
        "backend": a.backend,
        "type": a.kind,
        "driver": a.driver,
        "compiler": a.compiler,
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
