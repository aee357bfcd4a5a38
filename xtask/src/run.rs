//! Starts other programs; errors name the program.

use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{bail, Context, Result};

/// The cargo that runs xtask, in the root of the repository.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if let Ok(root) = crate::root() {
        command.current_dir(root);
    }
    prepare(&mut command);
    command
}

/// The environment of cargo and of the programs that it built.
pub fn prepare(command: &mut Command) {
    // Without it, Mesa prints a warning for each device that is opened.
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        command.env("XDG_RUNTIME_DIR", std::env::temp_dir());
    }
    // These describe xtask's own package and would reach build scripts.
    for (name, _) in std::env::vars_os() {
        let own = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if own {
            command.env_remove(name);
        }
    }
}

/// The compiler that cargo uses. It runs in the root of the repository, whose toolchain file may select one.
pub fn rustc() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if let Ok(root) = crate::root() {
        command.current_dir(root);
    }
    command
}

/// Runs a command with inherited stdin, stdout and stderr.
pub fn status(command: &mut Command) -> Result<ExitStatus> {
    let name = name(command);
    command
        .status()
        .with_context(|| format!("cannot start {name}"))
}

/// Builds a program of candle-examples in a profile, with more flags for cargo, and runs it.
pub fn example(name: &str, profile: &str, flags: &[&str], args: &[String]) -> Result<bool> {
    let mut what = vec!["-p", "candle-examples", "--bin", name, "--profile", profile];
    what.extend(flags);
    if !status(cargo().arg("build").args(&what))?.success() {
        return Ok(false);
    }
    let mut cargo = cargo();
    // Paths in the arguments are relative to the user's working directory.
    cargo.current_dir(std::env::current_dir()?);
    cargo.args(["run", "--quiet", "--manifest-path"]);
    cargo.arg(crate::root()?.join("Cargo.toml"));
    cargo.args(what).arg("--").args(args);
    Ok(status(&mut cargo)?.success())
}

/// The value of --device in a program's arguments.
pub fn device(args: &[String]) -> Option<&str> {
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        if arg == "--device" {
            return args.next();
        }
        if let Some(device) = arg.strip_prefix("--device=") {
            return Some(device);
        }
    }
    None
}

/// Runs a command and returns its stdout; errors include its stderr.
pub fn stdout(command: &mut Command) -> Result<String> {
    let name = name(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed: {}", stderr.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {name} is not UTF-8"))
}

/// git in `dir`. Overrides the user's configuration, so that commits and patches are the same on every machine.
pub fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir);
    for setting in [
        "user.name=candle fork",
        "user.email=fork@localhost",
        "commit.gpgsign=false",
        "core.autocrlf=false",
        "core.hooksPath=/dev/null",
        "core.quotePath=false",
        "diff.noprefix=false",
        "diff.mnemonicPrefix=false",
        "diff.algorithm=myers",
        "diff.renames=false",
        "advice.detachedHead=false",
        "gc.auto=0",
    ] {
        command.arg("-c").arg(setting);
    }
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
