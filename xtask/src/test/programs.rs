//! Builds the test programs with cargo. xtask runs them itself.
//!
//! Cargo unifies the features of the selected packages. Another selection could change some features and recompile most
//! dependencies, so every build also selects [`ROOTS`].

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::run;

/// Together they enable every feature that the workspace uses.
pub const ROOTS: [&str; 2] = ["candle-webgpu-tests", "candle-web"];

/// What to build.
#[derive(Default)]
pub struct Selection {
    pub packages: Vec<&'static str>,
    /// Options of `cargo test`: `--lib`, or `--test` and a name.
    pub targets: Vec<&'static str>,
}

impl Selection {
    pub fn packages(&mut self, names: &[&'static str]) -> &mut Self {
        self.packages.extend(names);
        self
    }

    pub fn targets(&mut self, options: &[&'static str]) -> &mut Self {
        self.targets.extend(options);
        self
    }

    pub fn tests(&mut self, names: &[&'static str]) -> &mut Self {
        self.targets
            .extend(names.iter().flat_map(|name| ["--test", name]));
        self
    }
}

/// A built test program.
pub struct Program {
    pub package: String,
    /// `lib`, `bin` or `test`.
    pub kind: String,
    pub name: String,
    path: PathBuf,
    /// The package's folder, the working directory under `cargo test`.
    folder: PathBuf,
}

impl Program {
    /// The name in the output.
    pub fn title(&self) -> String {
        match self.kind.as_str() {
            "test" => self.name.clone(),
            kind => format!("{} ({kind} {})", self.package, self.name),
        }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        run::prepare(&mut command);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

pub fn build(selection: &Selection) -> Result<Vec<Program>> {
    let packages = ROOTS.iter().chain(&selection.packages);
    let mut cargo = run::cargo();
    cargo.args([
        "test",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    cargo.args(packages.flat_map(|name| ["-p", name]));
    cargo.args(&selection.targets).stdout(Stdio::piped());
    let mut child = cargo.spawn().context("cannot start cargo")?;
    let stdout = child.stdout.take().context("cargo has no stdout")?;
    let mut programs = Vec::new();
    for line in BufReader::new(stdout).lines() {
        // Build scripts may print lines that are not JSON.
        if let Ok(message) = serde_json::from_str(&line?) {
            programs.extend(program(&message));
        }
    }
    if !child.wait().context("cannot wait for cargo")?.success() {
        bail!("the tests do not build");
    }
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // Binaries that tests start are built as well, but contain no tests.
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let kind = text(&message["target"]["kind"][0])?;
    let kind = match kind.as_str() {
        "bin" | "test" => kind,
        _ => "lib".to_owned(),
    };
    Some(Program {
        package: package(message["package_id"].as_str()?).to_owned(),
        kind,
        name: text(&message["target"]["name"])?,
        path: message["executable"].as_str()?.into(),
        folder: manifest.parent()?.to_owned(),
    })
}

/// The name in `path+file:///a/candle-nn#0.11.1` or `path+file:///a/tree#candle-core@0.11.1`.
fn package(id: &str) -> &str {
    let (url, version) = id.split_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name,
        None => url.rsplit('/').next().unwrap_or(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_prints() {
        let mut message = serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///a/tree#candle-nn@0.11.1",
            "manifest_path": "/a/tree/Cargo.toml",
            "target": { "kind": ["rlib"], "name": "candle_nn" },
            "profile": { "test": true },
            "executable": "/a/target/debug/deps/candle_nn-0123",
        });
        let found = program(&message).expect("a program");
        assert_eq!((&*found.package, &*found.kind), ("candle-nn", "lib"));
        assert_eq!(
            package("path+file:///a/candle-webgpu#0.1.0"),
            "candle-webgpu"
        );
        message["profile"]["test"] = false.into();
        assert!(program(&message).is_none());
    }
}
