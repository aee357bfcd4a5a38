//! The fork of candle-core and candle-nn as a patch queue: a pinned release, patches that only insert lines, and files of
//! our own. UPSTREAM.md explains how to work with it.

mod check;
mod dist;
mod export;
mod link;
mod patch;
mod rebase;
mod tree;
mod upstream;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Subcommand;
use sha2::{Digest, Sha256};

pub use check::check_all;
pub use dist::{CRATES, LICENCES};
pub use tree::{copy_release, BASE};
pub use upstream::manifest_dir;
use upstream::Pin;

pub const HELP: &str = "\
Write the patched candle-core and candle-nn to candle-core/tree and candle-nn/tree.

Each tree is a git repository: the pinned release as the first commit, then one commit per patch. Our own files are
linked in from src/. Trees that are up to date stay as they are.

To change a patch: edit in the tree, commit there (git commit --amend, or git rebase -i for an older commit), then
`cargo xtask fork export`. A new commit becomes a new patch; its subject begins with the patch's name and a colon.";

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Discard edits in the trees that are not exported
    #[arg(long)]
    force: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Export the commits of the trees to patches/
    Export,
    /// Build the trees from scratch, export them, and fail if anything differs from patches/
    Check,
    /// Write complete crates (candle-webgpu, candle-core, candle-nn) to a folder, to vendor or publish them
    Dist {
        /// A new or empty folder; with --git, also a repository that an earlier run wrote
        dir: PathBuf,
        /// Make the folder a git repository, and commit to its branch candle-webgpu
        #[arg(long)]
        git: bool,
    },
    /// Move the pin to another release and rebase the patches with git
    Rebase {
        /// The release, for example 0.11.2
        version: String,
    },
}

/// One forked crate.
pub struct Fork {
    pub name: &'static str,
    dir: PathBuf,
}

impl Fork {
    fn upstream(&self) -> PathBuf {
        self.dir.join("upstream")
    }

    fn patches(&self) -> PathBuf {
        self.dir.join("patches")
    }

    /// Our own files, at their final paths.
    fn own(&self) -> PathBuf {
        self.dir.join("src")
    }

    pub fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    fn pin(&self) -> Result<Pin> {
        Pin::read(&self.upstream(), self.name)
    }

    /// Where cargo unpacked the pinned release.
    pub fn release(&self) -> Result<PathBuf> {
        upstream::source(&self.upstream(), self.name, &self.pin()?)
    }

    /// The names in patches/series, in order.
    pub fn series(&self) -> Result<Vec<String>> {
        let path = self.patches().join("series");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read the series {}", path.display()))?;
        let names = text.lines().map(str::trim);
        Ok(names
            .filter(|name| !name.is_empty() && !name.starts_with('#'))
            .map(str::to_owned)
            .collect())
    }

    pub fn patch(&self, name: &str) -> Result<String> {
        let path = self.patches().join(name);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read the patch {}", path.display()))?;
        Ok(text.replace("\r\n", "\n"))
    }

    /// Changes whenever the tree has to be rebuilt.
    fn hash(&self) -> Result<String> {
        let pin = self.pin()?;
        let mut hash = Sha256::new();
        let mut add = |part: &str| {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        };
        add("2"); // increase when trees are built differently
        add(&pin.version);
        add(&pin.checksum);
        for name in self.series()? {
            add(&name);
            add(&self.patch(&name)?);
        }
        Ok(upstream::hex(&hash.finalize()))
    }
}

pub fn forks() -> Result<[Fork; 2]> {
    let root = crate::root()?;
    Ok(["candle-core", "candle-nn"].map(|name| Fork {
        name,
        dir: root.join(name),
    }))
}

pub fn main(args: Args) -> Result<bool> {
    match args.command {
        None => materialise_all(args.force)?,
        Some(Command::Export) => {
            let _lock = lock()?;
            for fork in forks()? {
                export::export(&fork)?;
            }
        }
        Some(Command::Check) => {
            let (_, failed) = check_all()?;
            return Ok(failed == 0);
        }
        Some(Command::Dist { dir, git }) => {
            materialise_all(args.force)?;
            let write = if git { dist::git } else { dist::dist };
            write(&forks()?, &dir)?;
        }
        Some(Command::Rebase { version }) => {
            materialise_all(args.force)?;
            let _lock = lock()?;
            return rebase::rebase(&forks()?, &version);
        }
    }
    Ok(true)
}

/// Writes the complete crates and a workspace of them to a new or empty folder.
pub fn write_crates(dir: &Path) -> Result<()> {
    materialise_all(false)?;
    dist::write(&forks()?, dir)
}

/// Builds the trees that are missing or out of date.
pub fn materialise_all(force: bool) -> Result<()> {
    let _lock = lock()?;
    for fork in forks()? {
        tree::materialise(&fork, force)?;
    }
    Ok(())
}

/// Prevents two commands from building the same tree at once.
fn lock() -> Result<fs::File> {
    let dir = crate::root()?.join("xtask/target");
    fs::create_dir_all(&dir)?;
    let file = fs::File::create(dir.join("fork.lock"))?;
    file.lock().context("cannot lock xtask/target/fork.lock")?;
    Ok(file)
}

/// Every file below `dir`, relative to it, sorted.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    fn walk(dir: &Path, prefix: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = prefix.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if entry.file_name() != ".git" {
                    walk(&entry.path(), &name, found)?;
                }
            } else {
                found.push(name);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(dir, Path::new(""), &mut found)?;
    found.sort();
    Ok(found)
}
