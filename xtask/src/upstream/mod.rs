//! `cargo xtask upstream`: writes the fork as a git branch for Candle's repository. upstream/README.md explains how.

mod base;
mod check;
mod edit;
mod fork_file;
mod imports;
mod merge;
mod series;
mod source;
mod table;
mod verify;
mod write;

use std::path::PathBuf;

use anyhow::{bail, Result};

use series::Series;

pub const HELP: &str = "\
Write the fork as a git branch of commits for Candle's repository. Nothing is ever pushed.

  cargo xtask upstream ../branch --series hooks              onto the pinned crates, as a small workspace
  cargo xtask upstream ../branch --series hooks --verify     and format, lint and test each commit
  cargo xtask upstream ../branch --series hooks --repo ../candle --onto main
                                                             onto a commit of a clone of Candle
  cargo xtask upstream ../branch --series hooks --continue   go on after a conflict
  cargo xtask upstream --check                               the series still cover the fork, and each commit compiles
  cargo xtask upstream --check --repo ../candle --onto main  and a report of what moved and what conflicts

Two series from the same files: `hooks` keeps the kernels in the crate candle-webgpu; `in-tree` brings them into the
repository. upstream/series.toml lists their commits; the texts of the pull requests are beside it.";

#[derive(clap::Args)]
pub struct Args {
    /// The folder of the new git repository; must be empty or absent
    dir: Option<PathBuf>,
    /// Which series
    #[arg(long, value_parser = ["hooks", "in-tree"])]
    series: Option<String>,
    /// A clone of Candle's repository. Without it, the branch starts from a workspace of the pinned crates
    #[arg(long, value_name = "PATH")]
    repo: Option<PathBuf>,
    /// The commit of --repo to start from
    #[arg(long, value_name = "REF", default_value = "HEAD", requires = "repo")]
    onto: String,
    /// Go on with the commit after the last one in DIR, once its conflicts are resolved and committed
    #[arg(long = "continue", conflicts_with_all = ["repo", "check"])]
    resume: bool,
    /// Format, lint and test each commit of DIR
    #[arg(long)]
    verify: bool,
    /// With --verify: only this commit, by its name in series.toml; may be repeated
    #[arg(long = "step", value_name = "NAME", requires = "verify")]
    steps: Vec<String>,
    /// Check that the last commit of each series equals the fork; with --repo, report offsets and conflicts
    #[arg(long, conflicts_with_all = ["dir", "verify"])]
    check: bool,
}

pub fn main(args: Args) -> Result<bool> {
    crate::fork::materialise_all(false)?;
    let repo = args.repo.as_deref().map(|path| (path, args.onto.as_str()));
    if args.check {
        let (_, failed) = check::run(args.series.as_deref(), repo)?;
        return Ok(failed == 0);
    }
    let (Some(dir), Some(name)) = (&args.dir, &args.series) else {
        bail!("name a folder and a series: cargo xtask upstream ../branch --series hooks")
    };
    let series = Series::read(name)?;
    // A folder that is complete is only verified.
    let complete =
        args.verify && !args.resume && write::written(dir, &series)? == Some(series.steps.len());
    if !complete {
        let base = match (args.resume, repo) {
            (true, _) => None,
            (false, Some((path, onto))) => Some(base::Base::Repository { path, onto }),
            (false, None) => Some(base::Base::PinnedCrates),
        };
        if !write::run(dir, &series, base)? {
            return Ok(false);
        }
    }
    table::print(dir, &series)?;
    if args.verify {
        return verify::run(dir, &series, &args.steps);
    }
    Ok(true)
}

/// Checks both series. Returns the number of commits that are right and of series that are not.
pub fn check_all() -> Result<(usize, usize)> {
    check::run(None, None)
}
