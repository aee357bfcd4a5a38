//! Writes every linked shader to a folder, one file each, and validates it: `wgsl-dump [DIR] [--target naga|tint]`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use candle_webgpu::kernel::catalogue;
use candle_webgpu::link::{link, Target};

const HELP: &str = "wgsl-dump [DIR] [--target naga|tint]

Writes every linked shader to DIR (target/wgsl) for one reader, naga unless told otherwise: the browser's compiler,
Tint, requires headers that naga refuses. What naga reads is validated.";

fn options() -> Result<Option<(PathBuf, Target)>> {
    let mut dir = None;
    let mut target = Target::Naga;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--target" => {
                target = match args.next().as_deref() {
                    Some("naga") => Target::Naga,
                    Some("tint") => Target::Tint,
                    _ => bail!("--target takes naga or tint"),
                }
            }
            flag if flag.starts_with('-') => bail!("unknown option {flag}"),
            path if dir.is_none() => dir = Some(PathBuf::from(path)),
            more => bail!("one folder, not {more} too"),
        }
    }
    Ok(Some((dir.unwrap_or_else(|| "target/wgsl".into()), target)))
}

fn validate(text: &str) -> Result<()> {
    let show = |e: String| anyhow::anyhow!(e);
    let module = naga::front::wgsl::parse_str(text).map_err(|e| show(e.emit_to_string(text)))?;
    let all = naga::valid::Capabilities::all();
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all)
        .validate(&module)
        .map_err(|e| show(e.emit_to_string(text)))?;
    Ok(())
}

fn run() -> Result<bool> {
    let Some((dir, target)) = options()? else {
        println!("{HELP}");
        return Ok(true);
    };
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let (mut written, mut wrong) = (0, 0);
    for spec in catalogue() {
        let name = spec.name();
        let text = link(&spec, target).with_context(|| name.clone())?;
        // A colon is no character of a file's name on Windows.
        let path = dir.join(format!("{}.wgsl", name.replace(':', "-")));
        std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
        written += 1;
        if target == Target::Naga {
            if let Err(e) = validate(&text) {
                wrong += 1;
                eprintln!("{name}: {e}");
            }
        }
    }
    println!("{written} shaders in {}, {wrong} invalid", dir.display());
    Ok(wrong == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
