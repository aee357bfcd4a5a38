//! Writes every linked shader to a folder, one file each, and validates it: `wgsl-dump [DIR] [--target naga|tint] [--spirv] [--no-validate]`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use candle_webgpu::kernel::catalogue;
use candle_webgpu::shader::{link, Specialization, Target};

const HELP: &str = "wgsl-dump [DIR] [--target naga|tint] [--spirv] [--no-validate]

Writes every linked shader to DIR (target/wgsl) for one reader, naga unless told otherwise: the browser's compiler,
Tint, requires headers that naga refuses. What naga reads is validated, unless --no-validate is given.

shaders.tsv beside them lists name, kernel, override constants, bytes of workgroup memory and features of each, for
shader-compilers.

--spirv writes spirv.txt beside them: for each shader a hash of the SPIR-V that naga makes of it, which knows no names. Two
sorted lists of hashes are equal where a change renamed things and did nothing else.";

struct Options {
    dir: PathBuf,
    target: Target,
    spirv: bool,
    validate: bool,
}

fn options() -> Result<Option<Options>> {
    let mut dir = None;
    let mut target = Target::Naga;
    let mut spirv = false;
    let mut validate = true;
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
            "--spirv" => spirv = true,
            "--no-validate" => validate = false,
            flag if flag.starts_with('-') => bail!("unknown option {flag}"),
            path if dir.is_none() => dir = Some(PathBuf::from(path)),
            more => bail!("one folder, not {more} too"),
        }
    }
    Ok(Some(Options {
        dir: dir.unwrap_or_else(|| "target/wgsl".into()),
        target,
        spirv,
        validate,
    }))
}

/// The hash of naga's SPIR-V for a valid text with the overrides of its specialisation.
fn spirv_hash(spec: &Specialization, text: &str) -> Result<u64> {
    let module = naga::front::wgsl::parse_str(text)?;
    let all = naga::valid::Capabilities::all();
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, all).validate(&module)?;
    let mut values: naga::back::PipelineConstants = spec
        .overrides
        .iter()
        .map(|(name, value)| (name.to_string(), f64::from(*value)))
        .collect();
    values.insert("WORKGROUP".into(), f64::from(spec.workgroup));
    let (module, info) =
        naga::back::pipeline_constants::process_overrides(&module, &info, None, &values)?;
    let options = naga::back::spv::Options {
        lang_version: (1, 6),
        flags: naga::back::spv::WriterFlags::empty(),
        ..Default::default()
    };
    let words = naga::back::spv::write_vec(&module, &info, &options, None)?;
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, word| {
        (h ^ u64::from(*word)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(hash)
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

/// A line of shaders.tsv.
fn row(spec: &Specialization) -> String {
    let mut kernel = spec.kernel.name.to_string();
    if !spec.variant.is_empty() {
        kernel += ".";
        kernel += spec.variant;
    }
    let mut constants = format!("WORKGROUP={}", spec.workgroup);
    for (name, value) in &spec.overrides {
        constants += &format!(",{name}={value}");
    }
    let named = [
        (wgpu::Features::SUBGROUP, "subgroups"),
        (
            wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
            "cooperative",
        ),
    ];
    let has = |(feature, _): &(wgpu::Features, _)| spec.features.contains(*feature);
    let features: Vec<&str> = named
        .into_iter()
        .filter(has)
        .map(|(_, name)| name)
        .collect();
    let (name, shared) = (spec.name(), (spec.kernel.shared)(spec));
    let features = features.join(",");
    format!("{name}\t{kernel}\t{constants}\t{shared}\t{features}\n")
}

fn run() -> Result<bool> {
    let Some(options) = options()? else {
        println!("{HELP}");
        return Ok(true);
    };
    let Options {
        dir, target, spirv, ..
    } = options;
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let (mut written, mut wrong) = (0, 0);
    let mut hashes = Vec::new();
    let mut index = String::new();
    for spec in catalogue() {
        let name = spec.name();
        let text = link(&spec, target).with_context(|| name.clone())?;
        // Windows does not allow a colon in a file name.
        let path = dir.join(format!("{}.wgsl", name.replace(':', "-")));
        std::fs::write(&path, &text).with_context(|| path.display().to_string())?;
        written += 1;
        index += &row(&spec);
        if target == Target::Naga {
            if options.validate {
                if let Err(e) = validate(&text) {
                    wrong += 1;
                    eprintln!("{name}: {e}");
                }
            }
            if spirv {
                let hash = spirv_hash(&spec, &text).with_context(|| name.clone())?;
                hashes.push(format!("{hash:016x} {name}\n"));
            }
        }
    }
    std::fs::write(dir.join("shaders.tsv"), index)?;
    if spirv {
        hashes.sort();
        std::fs::write(dir.join("spirv.txt"), hashes.concat())?;
    }
    let invalid = match options.validate && target == Target::Naga {
        true => format!(", {wrong} invalid"),
        false => String::new(),
    };
    println!("{written} shaders in {}{invalid}", dir.display());
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
