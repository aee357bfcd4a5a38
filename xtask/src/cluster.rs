//! `cargo xtask cluster`: from a fresh clone to a model on several ranks in one command; and the packages that MPI needs.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::{apt, fork, run, vulkan};

pub const HELP: &str = "\
Run a model on several ranks of this machine, over MPI.

Applies the patches, installs Open MPI and libclang, and a Vulkan driver if there is none (on Debian and Ubuntu), then builds
and starts the example. All arguments after those below are passed to it: `cargo xtask cluster -- --help` lists its options,
candle-examples/cluster/README.md tells how to use several machines.

  cargo xtask cluster -n 2 --parallel pipeline \"Once upon a time\" \"The little dog\"
  cargo xtask cluster -n 3 --release --input prompts.jsonl --output results.jsonl";

#[derive(clap::Args)]
pub struct Args {
    /// Number of ranks
    #[arg(short = 'n', default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Optimise all of the host's code: takes about three times as long to compile
    #[arg(long)]
    release: bool,

    /// Prompts and options of the example
    #[arg(
        value_name = "PROMPTS AND OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<String>,
}

const PACKAGES: [&str; 3] = ["libclang-dev", "libopenmpi-dev", "openmpi-bin"];

/// Installs what the feature `mpi` needs to build and to run, and fails if that needs a password.
pub fn ensure_mpi() -> Result<()> {
    if apt::on_path("mpirun") && apt::on_path("mpicc") && has_libclang() {
        return Ok(());
    }
    if !apt::install(&PACKAGES, "MPI or libclang is missing; installing Open MPI")? {
        bail!(
            "MPI or libclang is missing. Install them:\n  \
             Debian: sudo apt-get install {}\n  \
             Fedora: sudo dnf install clang-libs openmpi-devel (then `module load mpi`)\n  \
             Arch:   sudo pacman -S clang openmpi\n  \
             macOS:  brew install llvm open-mpi",
            PACKAGES.join(" ")
        );
    }
    Ok(())
}

/// Whether bindgen finds a libclang.
fn has_libclang() -> bool {
    let named = env::var_os("LIBCLANG_PATH").is_some();
    let linked = || {
        let libraries = run::stdout(Command::new("ldconfig").arg("-p"));
        libraries.is_ok_and(|list| list.contains("libclang"))
    };
    // Debian has it in a folder of its version.
    let of_version = || {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let llvm = folders.filter(|dir| dir.file_name().to_string_lossy().starts_with("llvm"));
        llvm.flat_map(|dir| fs::read_dir(dir.path().join("lib")))
            .flatten()
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("libclang"))
    };
    named || cfg!(not(target_os = "linux")) || linked() || of_version()
}

pub fn main(args: Args) -> Result<bool> {
    fork::materialise_all(false)?;
    vulkan::ensure_for(&args.rest, &[])?;
    ensure_mpi()?;
    // Unoptimised kernels of the CPU backend would take minutes.
    let release = args.release || run::device(&args.rest) == Some("cpu");
    let profile = if release { "release" } else { "quick" };
    let Some(program) = build(profile)? else {
        return Ok(false);
    };
    let mut mpirun = Command::new("mpirun");
    run::prepare(&mut mpirun);
    // Without it, a rank with all its threads stays on one core.
    mpirun.args(["--oversubscribe", "--bind-to", "none"]);
    if run::stdout(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0") {
        mpirun.arg("--allow-run-as-root");
    }
    mpirun.args(["-n", &args.ranks.to_string()]);
    mpirun.arg(program).args(&args.rest);
    Ok(run::status(&mut mpirun)?.success())
}

/// Builds the example and returns the program, or nothing if it does not build.
fn build(profile: &str) -> Result<Option<PathBuf>> {
    let mut cargo = run::cargo();
    cargo.args(["build", "-p", "candle-examples", "--bin", "cluster"]);
    cargo.args(["--profile", profile]);
    cargo.args(["--no-default-features", "--features", "webgpu,mpi"]);
    cargo.arg("--message-format=json-render-diagnostics");
    let mut child = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let mut program = None;
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        if message["target"]["name"] == "cluster" {
            program = message["executable"].as_str().map(PathBuf::from);
        }
    }
    let built = child.wait().context("cannot wait for cargo")?.success();
    Ok(program.filter(|_| built))
}
