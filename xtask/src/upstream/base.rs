//! What a branch starts from: a commit of Candle's repository, or a workspace of the pinned crates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use toml::{Table, Value};

use crate::fork::{self, copy_release, files};
use crate::run;

pub enum Base<'a> {
    Repository { path: &'a Path, onto: &'a str },
    PinnedCrates,
}

const CRATES: [&str; 3] = ["candle-core", "candle-nn", "candle-transformers"];

impl Base<'_> {
    /// Creates the repository `dir`, on a new branch.
    pub fn create(&self, dir: &Path, branch: &str) -> Result<()> {
        let empty = !dir.exists() || fs::read_dir(dir)?.next().is_none();
        ensure!(empty, "{} is not empty", dir.display());
        match self {
            Self::Repository { path, onto } => {
                let commit = run::stdout(run::git(path).args([
                    "rev-parse",
                    "--verify",
                    &format!("{onto}^{{commit}}"),
                ]))
                .with_context(|| format!("{} has no commit {onto}", path.display()))?;
                let (from, to) = (fs::canonicalize(path)?, dir);
                run::stdout(
                    run::git(Path::new("."))
                        .args(["clone", "--quiet", "--shared", "--no-checkout"])
                        .arg(from)
                        .arg(to),
                )?;
                run::stdout(run::git(dir).args([
                    "checkout",
                    "--quiet",
                    "-b",
                    branch,
                    commit.trim(),
                ]))?;
            }
            Self::PinnedCrates => {
                fs::create_dir_all(dir)?;
                workspace(dir)?;
                run::stdout(run::git(dir).args([
                    "init",
                    "--quiet",
                    &format!("--initial-branch={branch}"),
                ]))?;
                run::stdout(run::git(dir).args(["add", "--all"]))?;
                run::stdout(run::git(dir).args([
                    "commit",
                    "--quiet",
                    "-m",
                    "Candle's published crates",
                ]))?;
            }
        }
        run::stdout(run::git(dir).args(["tag", "--force", super::write::BASE, "HEAD"]))?;
        Ok(())
    }
}

/// The pinned crates with their manifests in the repository's form.
fn workspace(dir: &Path) -> Result<()> {
    let mut dependencies = Table::new();
    let mut package = Table::new();
    for name in CRATES {
        let release = release(name)?;
        let to = dir.join(name);
        copy_release(&release, &to)?;
        for file in [".cargo_vcs_info.json", "Cargo.lock"] {
            let _ = fs::remove_file(to.join(file));
        }
        let normal: Table = fs::read_to_string(release.join("Cargo.toml"))?.parse()?;
        fs::rename(to.join("Cargo.toml.orig"), to.join("Cargo.toml"))
            .with_context(|| format!("{name} has no Cargo.toml.orig"))?;
        let own: Table = fs::read_to_string(to.join("Cargo.toml"))?.parse()?;
        share(&own, &normal, &mut dependencies);
        let inherited = own
            .get("package")
            .and_then(Value::as_table)
            .into_iter()
            .flatten();
        for (key, _) in inherited.filter(|(_, value)| value.get("workspace").is_some()) {
            let value = normal.get("package").and_then(|p| p.get(key));
            package.insert(
                key.clone(),
                value
                    .with_context(|| format!("{name} has no {key}"))?
                    .clone(),
            );
        }
    }
    let mut names: BTreeMap<&str, &str> = CRATES.iter().map(|name| (*name, *name)).collect();
    names.insert("candle", "candle-core");
    for (name, path) in names {
        if let Some(Value::Table(dependency)) = dependencies.get_mut(name) {
            dependency.insert("path".into(), format!("./{path}").into());
        }
    }
    let members = CRATES.map(Value::from).to_vec();
    let mut text = String::from("[workspace]\n");
    text.push_str(&format!(
        "members = {}\nresolver = \"2\"\n\n[workspace.package]\n",
        Value::from(members)
    ));
    for (key, value) in package {
        text.push_str(&format!("{key} = {value}\n"));
    }
    text.push_str("\n[workspace.dependencies]\n");
    for (name, value) in dependencies {
        text.push_str(&format!("{name} = {}\n", value));
    }
    fs::write(dir.join("Cargo.toml"), text)?;
    fs::write(dir.join(".gitignore"), "/target\nCargo.lock\n")?;
    Ok(())
}

/// Adds the dependencies that a manifest takes from its workspace, as the published manifest has them.
fn share(own: &Table, normal: &Table, dependencies: &mut Table) {
    for (kind, value) in own {
        let (Value::Table(own), Some(Value::Table(normal))) = (value, normal.get(kind)) else {
            continue;
        };
        match kind.as_str() {
            "dependencies" | "dev-dependencies" | "build-dependencies" => {
                for (name, _) in own.iter().filter(|(_, d)| d.get("workspace").is_some()) {
                    let Some(published) = normal.get(name) else {
                        continue;
                    };
                    let mut published = published.clone();
                    if let Value::Table(table) = &mut published {
                        table.remove("optional");
                    }
                    dependencies.entry(name.clone()).or_insert(published);
                }
            }
            "target" => {
                for (target, value) in own {
                    if let (Value::Table(own), Some(Value::Table(normal))) =
                        (value, normal.get(target))
                    {
                        share(own, normal, dependencies);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Where cargo unpacked a pinned release.
fn release(name: &str) -> Result<PathBuf> {
    if let Some(fork) = fork::forks()?.into_iter().find(|fork| fork.name == name) {
        return fork.release();
    }
    let metadata = run::stdout(run::cargo().args(["metadata", "--locked", "--format-version=1"]))?;
    fork::manifest_dir(&metadata, name)
}

/// The files below a folder, by their paths with slashes.
pub fn paths(dir: &Path) -> Result<Vec<String>> {
    Ok(files(dir)?
        .iter()
        .map(|path| super::fork_file::slashes(path))
        .collect())
}
