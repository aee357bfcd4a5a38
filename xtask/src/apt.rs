//! Installs packages on Debian and its derivatives, if that needs no password.

use std::env;
use std::process::Command;

use anyhow::{bail, Result};

use crate::run;

/// Installs packages. Returns false if there is no apt-get, or neither root nor passwordless sudo.
pub fn install(packages: &[&str], reason: &str) -> Result<bool> {
    if !on_path("apt-get") {
        return Ok(false);
    }
    let Some(sudo) = privilege() else {
        return Ok(false);
    };
    eprintln!("{reason}: apt-get install {}", packages.join(" "));
    apt(sudo, &["update"])?;
    // The user is not asked, so nothing may be removed.
    let install = ["install", "--yes", "--no-install-recommends", "--no-remove"];
    apt(sudo, &[&install, packages].concat())?;
    Ok(true)
}

pub fn on_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).exists()))
}

/// How to become root: `Some(None)` if already root, `Some(Some("sudo"))` with passwordless sudo, else `None`.
fn privilege() -> Option<Option<&'static str>> {
    let root = run::stdout(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if root {
        return Some(None);
    }
    let sudo = run::stdout(Command::new("sudo").args(["-n", "true"])).is_ok();
    sudo.then_some(Some("sudo"))
}

fn apt(sudo: Option<&str>, args: &[&str]) -> Result<()> {
    let mut command = match sudo {
        Some(sudo) => {
            let mut command = Command::new(sudo);
            command.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            command
        }
        None => Command::new("apt-get"),
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    if !run::status(command.arg("--quiet").args(args))?.success() {
        bail!("apt-get {} failed", args.join(" "));
    }
    Ok(())
}
