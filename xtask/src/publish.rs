//! `cargo xtask publish --dry-run`: checks the crates as they would be published. A person publishes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;
use toml::Table;

use crate::fork::{self, CRATES, LICENCES};
use crate::toolchain::{self, Toolchain};
use crate::{run, vulkan};

pub const HELP: &str = "\
Check the crates as they would be published: candle-webgpu, then candle-core and candle-nn of the fork.

  cargo xtask publish --dry-run

First it checks candle-webgpu's manifest, licences, README and shaders, and writes the three complete crates to an empty
folder, target/publish/crates. The steps:

  package   package the crates and build each from its archive, with default features
  webgpu    the same with the feature webgpu of candle-core and candle-nn
  example   run the example in candle-webgpu's documentation
  docs      candle-webgpu's documentation has no warnings, natively and for browsers (upstream's has warnings)
  oldest    candle-webgpu builds with its rust-version, which rustup installs if necessary

It never publishes: the names candle-core and candle-nn are upstream's, and candle-webgpu is for a person to publish.";

const BROWSER: &str = "wasm32-unknown-unknown";

const BY_HAND: &str = "\
this command only prepares; run it with --dry-run. Then a person publishes:

  cargo publish -p candle-webgpu
  cargo xtask fork dist --git DIR    # candle-core and candle-nn, whose names on crates.io are upstream's; push the branch";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    Package,
    Webgpu,
    Example,
    Docs,
    Oldest,
}

#[derive(clap::Args)]
pub struct Args {
    /// Check everything, publish nothing
    #[arg(long)]
    dry_run: bool,
    /// The steps to run [default: all]
    #[arg(value_enum)]
    steps: Vec<Step>,
}

pub fn main(args: Args) -> Result<bool> {
    if !args.dry_run {
        bail!("{BY_HAND}");
    }
    let root = crate::root()?;
    let target = root.join("target/publish");
    let manifest = Manifest::read(&root.join("candle-webgpu"))?;
    let mut times = Vec::new();
    let mut time = |name: &str, run: &dyn Fn() -> Result<()>| {
        println!("\n== {name}");
        let start = Instant::now();
        run().with_context(|| name.to_owned())?;
        times.push(format!("{:>5} s  {name}", start.elapsed().as_secs()));
        anyhow::Ok(())
    };
    time("contents", &|| {
        manifest.check(&root)?;
        check_requirements(&root)
    })?;
    time("crates", &|| write(&target))?;
    for step in Step::value_variants() {
        if args.steps.is_empty() || args.steps.contains(step) {
            let name = step.to_possible_value().context("a step has a name")?;
            time(name.get_name(), &|| step.run(&target, &manifest))?;
        }
    }
    println!("\n{}\n", times.join("\n"));
    if args.steps.is_empty() {
        for name in CRATES {
            println!("{}", archive(&target, name)?);
        }
    }
    if manifest.get("repository").is_err() {
        println!("To be filled in before candle-webgpu is published: `repository` in candle-webgpu/Cargo.toml");
    }
    Ok(true)
}

fn write(target: &Path) -> Result<()> {
    let dir = target.join("crates");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fork::write_crates(&dir)
}

impl Step {
    fn run(self, target: &Path, manifest: &Manifest) -> Result<()> {
        let cargo = |words: &str| in_crates(run::cargo(), target, words);
        match self {
            Step::Package => cargo("package --workspace --allow-dirty"),
            Step::Webgpu => cargo(
                "package --workspace --allow-dirty --features candle-core/webgpu,candle-nn/webgpu",
            ),
            Step::Example => {
                vulkan::ensure()?;
                cargo("test --doc -p candle-webgpu")
            }
            Step::Docs => {
                cargo("doc --no-deps -p candle-webgpu")?;
                let words = format!("doc --no-deps -p candle-webgpu --target {BROWSER}");
                in_crates(Toolchain::find(BROWSER)?.cargo(), target, &words)
            }
            Step::Oldest => {
                let version = manifest.get("rust-version")?;
                let mut cargo = toolchain::cargo_of(version)?;
                println!("Rust {version}");
                // The newest dependencies, which earlier steps used, need not support it.
                let lock = target.join("crates/Cargo.lock");
                if lock.exists() {
                    fs::remove_file(lock)?;
                }
                cargo.env("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "fallback");
                in_crates(cargo, target, "check -p candle-webgpu")
            }
        }
    }
}

/// Runs cargo in the folder of the complete crates.
fn in_crates(mut cargo: Command, target: &Path, words: &str) -> Result<()> {
    cargo
        .args(words.split(' '))
        .current_dir(target.join("crates"));
    cargo.env("CARGO_TARGET_DIR", target.join("build"));
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    ensure!(run::status(&mut cargo)?.success(), "cargo {words} failed");
    Ok(())
}

/// Checks that candle-webgpu requires no newer crates for browsers than wgpu does. With newer ones, cargo refuses to add it to a
/// project whose Cargo.lock has versions between the two.
fn check_requirements(root: &Path) -> Result<()> {
    let mut cargo = run::cargo();
    cargo.args(["metadata", "--format-version=1", "--manifest-path"]);
    let metadata = run::stdout(cargo.arg(root.join("Cargo.toml")))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let required = |package: &str, name: &str| {
        packages
            .iter()
            .filter(|found| found["name"] == package)
            .flat_map(|found| list(&found["dependencies"]))
            .find(|found| found["name"] == name)
            .and_then(|found| Some(found["req"].as_str()?.to_owned()))
            .with_context(|| format!("{package} does not depend on {name}"))
    };
    for name in ["js-sys", "wasm-bindgen"] {
        let (ours, theirs) = (required("candle-webgpu", name)?, required("wgpu", name)?);
        ensure!(
            ours == theirs,
            "candle-webgpu requires {name} {ours}, but wgpu requires {theirs}; require the same"
        );
    }
    Ok(())
}

/// The size of a package and the number of its files.
fn archive(target: &Path, name: &str) -> Result<String> {
    let manifest = Manifest::read(&target.join("crates").join(name))?;
    let file = format!("{name}-{}.crate", manifest.get("version")?);
    let path = target.join("build/package").join(&file);
    let list = run::stdout(Command::new("tar").arg("-tzf").arg(&path))?;
    let kib = fs::metadata(&path)?.len() / 1024;
    Ok(format!("{file}: {} files, {kib} KiB", list.lines().count()))
}

/// A crate's manifest.
struct Manifest(Table);

impl Manifest {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("Cargo.toml");
        let text = fs::read_to_string(&path)?;
        Ok(Self(
            text.parse().with_context(|| path.display().to_string())?,
        ))
    }

    /// A field of `[package]`.
    fn get(&self, key: &str) -> Result<&str> {
        let value = self
            .0
            .get("package")
            .and_then(|package| package.get(key)?.as_str());
        value.with_context(|| format!("the manifest has no `{key}`"))
    }

    /// Checks what crates.io and docs.rs show of candle-webgpu, and the files in its package.
    fn check(&self, root: &Path) -> Result<()> {
        for key in ["description", "license", "readme", "rust-version"] {
            self.get(key)?;
        }
        let dir = root.join("candle-webgpu");
        for licence in LICENCES {
            ensure!(
                fs::read(root.join(licence))? == fs::read(dir.join(licence))?,
                "candle-webgpu/{licence} differs from {licence}"
            );
        }
        let mut cargo = run::cargo();
        cargo.args([
            "package",
            "--list",
            "--quiet",
            "--allow-dirty",
            "-p",
            "candle-webgpu",
        ]);
        let list = run::stdout(&mut cargo)?;
        let packaged: Vec<&str> = list.lines().collect();
        let shaders = fork::files(&dir.join("wgsl"))?;
        let shaders = shaders
            .iter()
            .map(|file| format!("wgsl/{}", file.display()));
        for file in LICENCES.map(str::to_owned).into_iter().chain(shaders) {
            let file = file.replace('\\', "/");
            ensure!(packaged.contains(&&*file), "the package lacks {file}");
        }
        for file in packaged {
            // cargo adds some files.
            let link = fs::symlink_metadata(dir.join(file)).is_ok_and(|meta| meta.is_symlink());
            ensure!(
                !link,
                "candle-webgpu/{file} is a symbolic link, which Windows checks out as a text file"
            );
        }
        Ok(())
    }
}
