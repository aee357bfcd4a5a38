//! docs/dispatches.md: the dispatches that fusion rules save in models of candle-transformers. The test fails if the file is stale.
//!
//!     UPDATE_GOLDEN=1 cargo test -p candle-webgpu-tests --test dispatches                   # writes the file
//!     cargo test -p candle-webgpu-tests --test dispatches -- --nocapture                    # prints its table
//!     cargo test -p candle-webgpu-tests --test dispatches -- --ignored rules --nocapture    # prints lines and savings of each rule

#[path = "../zoo/audio.rs"]
mod audio;
#[allow(dead_code)] // What is compared is tests/gguf's matter, in the next, too.
#[path = "../gguf/family.rs"]
mod family;
#[allow(dead_code)]
#[path = "../gguf/file.rs"]
mod file;
#[path = "../zoo/language.rs"]
mod language;
#[path = "../zoo/model.rs"]
mod model;
#[path = "../zoo/passes.rs"]
mod passes;
#[path = "../zoo/sequence.rs"]
mod sequence;
#[path = "../zoo/values.rs"]
mod values;
#[path = "../zoo/weights.rs"]
mod weights;

use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{ensure, Context, Result};
use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
use candle_examples::gguf::ARCHITECTURES;
use candle_webgpu::{REWRITE_VAR, RULES};
use model::Model;

const INTRODUCTION: &str = "\
# Dispatches with and without fusion rules

Written by `UPDATE_GOLDEN=1 cargo test -p candle-webgpu-tests --test dispatches`; with `--nocapture` instead, the test prints the table
for any adapter. `cargo xtask test models` fails if the file is stale for the adapter that it names.

The models are candle-transformers' code, unmodified, with the configurations of `tests/zoo` and `tests/gguf` (2 layers) and
random weights. A pass decodes one token behind a KV cache of 9, with two exceptions: BERT reads two texts of 5 tokens, and
Whisper's decoder, which has no KV cache in this code, computes 4 tokens. A layer's count is half the difference between 4 layers and 2.
Off means `CANDLE_WEBGPU_REWRITE=-all`; the last column names the rules that fire. ARCHITECTURE.md describes them.
";

/// The models: the title in the table, and the name in the zoo.
const NAMES: [(&str, &str); 9] = [
    ("llama", "llama"),
    ("mistral", "mistral"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("gemma3", "gemma3"),
    ("phi3", "phi3"),
    ("quantized_llama", ""),
    ("bert", "bert"),
    ("whisper, decoder", "whisper"),
];

/// The dispatches of one pass through `layers` layers, where `rules` is a value of `CANDLE_WEBGPU_REWRITE`.
fn pass(name: &str, device: &Device, rules: &str, layers: usize) -> Result<u64> {
    device.as_webgpu_device()?.runtime().rewrite_by(rules)?;
    passes::dispatches(layers, || match model(name) {
        Some(model) => (model.run)(weights::builder(dtype(model), device)),
        None => quantized_llama(device),
    })
}

fn model(name: &str) -> Option<&'static Model> {
    let all = [language::MODELS, sequence::MODELS, audio::MODELS];
    all.into_iter().flatten().find(|model| model.name == name)
}

/// f16 if the model's code supports it, else f32.
fn dtype(model: &Model) -> DType {
    match model.dtypes.contains(&DType::F16) {
        true => DType::F16,
        false => DType::F32,
    }
}

const QUANTIZED: (&str, GgmlDType) = ("q4_0", GgmlDType::Q4_0);

fn quantized_llama(device: &Device) -> Result<Vec<Tensor>> {
    let family = family::FAMILIES.iter().find(|f| f.name == "llama");
    let family = family.context("no llama")?;
    let mut file = Cursor::new(file::pair(family, QUANTIZED.1)?.quantized);
    let content = Content::read(&mut file)?;
    let architecture = ARCHITECTURES.iter().find(|a| a.name == family.architecture);
    let load = architecture.context("no such architecture")?.load;
    let mut forward = load(content, &mut file, device)?;
    language::decode(device, |ids, at| forward(ids, at))
}

fn table(device: &Device) -> Result<String> {
    let mut table = String::from(
        "| | dtype | off | on | a layer, off | a layer, on | rules |\n|---|---|---|---|---|---|---|\n",
    );
    let runtime = device.as_webgpu_device()?.runtime();
    // The default, or what the environment asks for.
    let usual = std::env::var(REWRITE_VAR).unwrap_or_default();
    for (title, name) in NAMES {
        let dtype = model(name).map_or(QUANTIZED.0, |model| dtype(model).as_str());
        let before = runtime.rewrites();
        let counts = ["-all", &usual].map(|rules| -> Result<(u64, u64)> {
            let [two, four] = [2, 4].map(|layers| pass(name, device, rules, layers));
            Ok((two?, four?))
        });
        let [off, on] = counts;
        let (off, on) = (off.context(title)?, on.context(title)?);
        ensure!(
            on.0 <= off.0 && on.1 <= off.1,
            "{title}: rules add dispatches"
        );
        let pairs = before.iter().zip(runtime.rewrites());
        let fired = pairs.filter(|(before, after)| after.times > before.times);
        let fired: Vec<&str> = fired.map(|(_, after)| after.rule).collect();
        let layer = |(two, four): (u64, u64)| (four as f64 - two as f64) / 2.;
        table += &format!(
            "| {title} | {dtype} | {} | {} | {} | {} | {} |\n",
            off.0,
            on.0,
            layer(off),
            layer(on),
            fired.join(", ")
        );
    }
    Ok(table)
}

/// For each rule its lines of code, and for each model the dispatches that a pass takes more when that rule alone is off.
fn costs_and_savings(device: &Device) -> Result<String> {
    let titles = NAMES.map(|(title, _)| title).join(" | ");
    let mut table = format!("| rule | lines | {titles} |\n|---|---|");
    table += &"---|".repeat(NAMES.len());
    let count =
        |name: &str, rules: &str| -> Result<i64> { Ok(pass(name, device, rules, 2)? as i64) };
    let with: Result<Vec<i64>> = NAMES.iter().map(|(_, name)| count(name, "+all")).collect();
    let with = with?;
    for rule in RULES {
        table += &format!("\n| {} | {} |", rule.name, lines(rule.name)?);
        for ((_, name), with) in NAMES.iter().zip(&with) {
            let without = count(name, &format!("+all,-{}", rule.name))?;
            table += &format!(" {} |", without - with);
        }
    }
    Ok(table + "\n")
}

/// Lines of code of a rule's file, and of the folder of that name, without tests, comments and blank lines.
fn lines(rule: &str) -> Result<usize> {
    let fusion = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candle-webgpu/src/fusion");
    let mut files = vec![fusion.join(rule).with_extension("rs")];
    if let Ok(folder) = fusion.join(rule).read_dir() {
        for entry in folder {
            files.push(entry?.path());
        }
    }
    files.retain(|path| path.is_file() && !path.ends_with("tests.rs"));
    ensure!(!files.is_empty(), "no file of the rule {rule}");
    let mut lines = 0;
    for path in files {
        let text = std::fs::read_to_string(path)?;
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().map(str::trim_start);
        lines += code
            .filter(|l| !l.is_empty() && !l.starts_with("//"))
            .count();
    }
    Ok(lines)
}

/// Tests share a device, and which rules are on is a property of the device.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "runs every model once for each rule"]
fn rules() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    println!("{}", costs_and_savings(&Device::new_webgpu(0)?)?);
    Ok(())
}

#[test]
fn dispatches_are_as_written() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let device = Device::new_webgpu(0)?;
    let report = device.as_webgpu_device()?.adapter().clone();
    let adapter = format!("On {}, {}.", report.name, report.driver);
    let table = table(&device)?;
    println!("{adapter}\n\n{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dispatches.md");
    let text = format!("{INTRODUCTION}\n{adapter}\n\n{table}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return Ok(std::fs::write(path, text)?);
    }
    let written = std::fs::read_to_string(&path)?;
    if !written.lines().any(|line| line == adapter) {
        println!("docs/dispatches.md is about another adapter");
        return Ok(());
    }
    let changed: Vec<&str> = text.lines().filter(|l| !written.contains(l)).collect();
    ensure!(
        text == written,
        "docs/dispatches.md is stale, run with UPDATE_GOLDEN=1: {changed:#?}"
    );
    Ok(())
}
