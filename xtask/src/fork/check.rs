//! Checks that the patches apply to the pinned release, only insert lines, and export to the same bytes.

use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::{export, forks, patch, tree, Fork};

/// Prints the result of each fork. Returns the number of patches that passed and of forks that failed.
pub fn check_all() -> Result<(usize, usize)> {
    let _lock = super::lock()?;
    let (mut passed, mut failed) = (0, 0);
    for fork in forks()? {
        let dir = crate::root()?
            .join("xtask/target/fork-check")
            .join(fork.name);
        match check(&fork, &dir) {
            Ok((patches, lines)) => {
                println!("{}: {patches} patches insert {lines} lines", fork.name);
                passed += patches;
            }
            Err(error) => {
                println!("{}: {error:#}", fork.name);
                failed += 1;
            }
        }
        if let Some(stamp) = tree::Stamp::read(&fork.tree()) {
            if stamp.head != tree::head(&fork.tree())? || !tree::clean(&fork.tree())? {
                println!("{}: note: tree/ has edits that are not exported", fork.name);
            }
        }
    }
    Ok((passed, failed))
}

fn check(fork: &Fork, dir: &Path) -> Result<(usize, usize)> {
    tree::build(fork, dir)?;
    if !tree::clean(dir)? {
        bail!("the new tree is not clean");
    }
    let exported = export::patches(dir)?;
    fs::remove_dir_all(dir)?;
    let series = fork.series()?;
    let names: Vec<_> = exported.iter().map(|(name, _)| name.clone()).collect();
    if names != series {
        bail!("the export has the series {names:?}, patches/series has {series:?}");
    }
    let mut lines = 0;
    for (name, text) in &exported {
        let committed = fs::read_to_string(fork.patches().join(name))?;
        if committed != *text {
            bail!("patches/{name} differs from its export: run `cargo xtask fork --force` and `cargo xtask fork export`");
        }
        lines += patch::check(text).with_context(|| name.clone())?;
    }
    for entry in fs::read_dir(fork.patches())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".patch") && !series.contains(&name) {
            bail!("patches/{name} is not in the series");
        }
    }
    Ok((series.len(), lines))
}
