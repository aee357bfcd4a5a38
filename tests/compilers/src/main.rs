//! Compiles the shaders of candle-webgpu for GPUs that need not be present: `cargo xtask shaders`.

mod compiler;
mod dxc;
mod found;
mod known;
mod radv;
mod report;
mod shader;
mod translate;
mod worker;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use compiler::Target;
use found::Found;
use known::{Known, KNOWN};
use report::Run;

const SAMPLE: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// naga's SPIR-V, HLSL and MSL
    Naga,
    /// Microsoft's DirectX compiler, on naga's HLSL
    Dxc,
    /// AMD's compiler in Mesa, on naga's SPIR-V
    Radv,
}

/// Compiles the shaders that wgsl-dump wrote for GPUs that need not be present. A crash of a compiler is caught.
#[derive(Parser)]
struct Args {
    /// The folder of wgsl-dump
    #[arg(default_value = "target/wgsl")]
    dir: PathBuf,
    /// Compile all shaders, not a sample of each kernel
    #[arg(long)]
    all: bool,
    /// Shaders of each kernel in a sample
    #[arg(long, default_value_t = SAMPLE, value_parser = clap::value_parser!(u64).range(1..))]
    sample: u64,
    /// A compiler; may be repeated [default: naga]
    #[arg(long = "compiler", value_enum)]
    compilers: Vec<Name>,
    /// GPUs for radv: names that RADV_FORCE_FAMILY takes
    #[arg(long, value_delimiter = ',', default_value = "navi21,vega10,polaris10")]
    families: Vec<String>,
    /// Also ask radv for subgroups of these sizes, where shaders use subgroups
    #[arg(long, value_delimiter = ',')]
    subgroups: Vec<u32>,
    /// A folder with another Mesa, unpacked from Debian's packages with their libc
    #[arg(long)]
    mesa: Option<PathBuf>,
    /// The library of DXC
    #[arg(long, required_if_eq("compilers", "dxc"))]
    dxc: Option<PathBuf>,
    /// Only shaders whose names contain this
    #[arg(long, default_value = "")]
    filter: String,
    /// Where outcomes are kept as they come
    #[arg(long, default_value = "target/compilers/found")]
    found: PathBuf,
    /// Do not compile again what an earlier run of the same compilers found
    #[arg(long)]
    resume: bool,
    /// Stop each target after so many seconds, and report the shaders compiled by then
    #[arg(long)]
    seconds: Option<u64>,
    /// Write the tables between the markers of this file
    #[arg(long)]
    write: Option<PathBuf>,
    /// Print a line for each shader, as test programs do, and no tables
    #[arg(long)]
    tests: bool,
    /// Serve a parent process
    #[arg(long, hide = true, value_enum)]
    worker: Option<Name>,
}

impl Args {
    fn targets(&self) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        let default = [Name::Naga];
        let names = match self.compilers.is_empty() {
            true => &default[..],
            false => &self.compilers,
        };
        for name in names {
            match name {
                Name::Naga => targets.push(Target::Naga),
                Name::Dxc => targets.push(self.dxc()?),
                Name::Radv => {
                    let sizes = [None]
                        .into_iter()
                        .chain(self.subgroups.iter().copied().map(Some));
                    for (family, subgroup) in self
                        .families
                        .iter()
                        .flat_map(|family| sizes.clone().map(move |size| (family.clone(), size)))
                    {
                        targets.push(Target::Radv {
                            family,
                            subgroup,
                            mesa: self.mesa.clone(),
                        });
                    }
                }
            }
        }
        Ok(targets)
    }

    fn dxc(&self) -> Result<Target> {
        let library = self.dxc.clone().context("--dxc names no library")?;
        Ok(Target::Dxc { library })
    }
}

impl Target {
    /// A worker process for this target. It ends with its parent.
    fn command(&self, dir: &Path) -> Result<Command> {
        let own = std::env::current_exe()?;
        let mut command = Command::new(&own);
        match self {
            Target::Naga => {
                command.arg(dir).args(["--worker", "naga"]);
            }
            Target::Dxc { library } => {
                command
                    .arg(dir)
                    .args(["--worker", "dxc", "--dxc"])
                    .arg(library);
            }
            Target::Radv {
                family,
                subgroup,
                mesa,
            } => {
                let driver = match mesa {
                    None => system_radv()?,
                    Some(root) => {
                        let libraries = root.join("usr/lib/x86_64-linux-gnu");
                        // A newer Mesa needs the newer libc beside it.
                        command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
                        command.arg("--library-path").arg(&libraries).arg(&own);
                        root.join("radv.json")
                    }
                };
                command
                    .arg(dir)
                    .args(["--worker", "radv", "--families", family]);
                let size = subgroup.map(|size| size.to_string());
                command.args(size.iter().flat_map(|size| ["--subgroups", size]));
                command
                    .env("VK_DRIVER_FILES", &driver)
                    .env("VK_ICD_FILENAMES", &driver);
                command.env("RADV_FORCE_FAMILY", family);
                command
                    .env("MESA_SHADER_CACHE_DISABLE", "1")
                    .env("RADV_DEBUG", "nocache");
            }
        }
        Ok(command)
    }
}

/// RADV's manifest.
fn system_radv() -> Result<PathBuf> {
    let names = ["radeon_icd.x86_64.json", "radeon_icd.json"];
    let mut paths = names
        .map(|name| Path::new("/usr/share/vulkan/icd.d").join(name))
        .into_iter();
    let found = paths.find(|path| path.exists());
    found.context("the system has no RADV: install mesa-vulkan-drivers")
}

fn run() -> Result<bool> {
    let args = Args::parse();
    let shaders = shader::read(&args.dir)?;
    if let Some(name) = args.worker {
        let target = match name {
            Name::Naga => Target::Naga,
            Name::Dxc => args.dxc()?,
            Name::Radv => Target::Radv {
                family: args.families.first().cloned().unwrap_or_default(),
                subgroup: args.subgroups.first().copied(),
                mesa: None,
            },
        };
        worker::serve(&target, &shaders)?;
        return Ok(true);
    }
    let chosen = shaders.into_iter().enumerate();
    let chosen = chosen.filter(|(_, shader)| shader.name.contains(&args.filter));
    let chosen: Vec<_> = chosen.collect();
    let mut runs = Vec::new();
    for target in args.targets()? {
        let with_subgroups = matches!(
            target,
            Target::Radv {
                subgroup: Some(_),
                ..
            }
        );
        let chosen = chosen
            .iter()
            .filter(|(_, shader)| shader.subgroups || !with_subgroups)
            .cloned();
        let chosen = match args.all {
            true => chosen.collect(),
            false => shader::sample(chosen, args.sample as usize, |shader| target.suits(shader)),
        };
        let found = Found::open(&args.found, &target, args.resume)?;
        let (compiler, outcomes) =
            worker::compile_all(&target, &args.dir, &chosen, found, args.seconds)
                .with_context(|| target.to_string())?;
        let shaders = chosen.into_iter().map(|(_, shader)| shader);
        let outcomes: Vec<_> = shaders
            .zip(outcomes)
            .filter_map(|(shader, outcome)| Some((shader, outcome?)))
            .collect();
        runs.push(Run {
            target,
            compiler,
            outcomes,
        });
    }
    let mut verdict = report::judge(&runs, KNOWN, args.all);
    // A small sample, or part of one, need not meet a known fault.
    let whole = args.filter.is_empty() && args.seconds.is_none();
    if !(whole && (args.all || args.sample >= SAMPLE)) {
        verdict.stale.clear();
    }
    if args.tests {
        print!("{}", verdict.tests());
        return Ok(verdict.wrong() == 0);
    }
    let tables = report::tables(&runs);
    println!("{tables}");
    if let Some(page) = &args.write {
        report::write(page, &tables)?;
    }
    for (name, what) in &verdict.faults {
        println!("{name}: {what}");
    }
    verdict.stale.iter().for_each(|line| println!("{line}"));
    for (at, count) in &verdict.known {
        let Known {
            kernel,
            faults,
            why,
            ..
        } = &KNOWN[*at];
        println!("known: {kernel}: {faults:?}, {count} times: {why}");
    }
    println!("{} faults", verdict.wrong());
    Ok(verdict.wrong() == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
