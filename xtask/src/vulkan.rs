//! Makes sure that Linux has a Vulkan driver for wgpu. Without a GPU, that is Mesa's lavapipe.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};

use crate::{apt, run};

const PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Installs the software driver if there is no Vulkan driver, and fails if that needs a password.
pub fn ensure() -> Result<()> {
    if !cfg!(target_os = "linux") || (has_loader() && has_driver()) {
        return Ok(()); // Metal and DX12 are part of the system
    }
    let reason = "No Vulkan driver found; installing Mesa's, which needs no GPU";
    if !apt::install(&PACKAGES, reason)? {
        bail!(
            "no Vulkan driver found. Install your GPU's driver, or Mesa's, which also runs on the CPU:\n  \
             Debian: sudo apt-get install {}\n  \
             Fedora: sudo dnf install mesa-vulkan-drivers vulkan-loader\n  \
             Arch:   sudo pacman -S vulkan-swrast vulkan-icd-loader\n  \
             others: the packages with libvulkan_lvp.so and libvulkan.so.1",
            PACKAGES.join(" ")
        );
    }
    if !has_driver() {
        bail!("{} did not install a Vulkan driver", PACKAGES.join(", "));
    }
    Ok(())
}

/// Calls [`ensure`] unless a program of candle-examples with these arguments needs no Vulkan: it opens another device, or none because it is
/// asked for help or has one of the arguments `no_device`.
pub fn ensure_for(args: &[String], no_device: &[&str]) -> Result<()> {
    if needed(args, no_device) {
        ensure()?;
    }
    Ok(())
}

fn needed(args: &[String], no_device: &[&str]) -> bool {
    let asks = ["--help", "-h", "--version", "-V"];
    let other = run::device(args).is_some_and(|d| d != "webgpu" && d != "auto");
    let mut args = args.iter().map(String::as_str);
    !other && !args.any(|arg| asks.contains(&arg) || no_device.contains(&arg))
}

fn has_loader() -> bool {
    let cached = ["ldconfig", "/sbin/ldconfig"].iter().any(|ldconfig| {
        run::stdout(Command::new(ldconfig).arg("-p"))
            .is_ok_and(|out| out.contains("libvulkan.so.1"))
    });
    cached
        || env::var_os("LD_LIBRARY_PATH").is_some_and(|paths| {
            env::split_paths(&paths).any(|path| path.join("libvulkan.so.1").exists())
        })
        || [
            "/usr/lib",
            "/usr/lib64",
            "/usr/local/lib",
            "/run/opengl-driver/lib",
        ]
        .iter()
        .any(|dir| Path::new(dir).join("libvulkan.so.1").exists())
}

/// Searches the folders in which the Vulkan loader looks for driver manifests.
fn has_driver() -> bool {
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        if let Some(files) = env::var_os(name) {
            return env::split_paths(&files).any(|file| file.exists());
        }
    }
    let mut roots: Vec<PathBuf> = ["/etc", "/usr/share", "/usr/local/share", "/usr/local/etc"]
        .map(PathBuf::from)
        .to_vec();
    if let Some(home) = env::var_os("HOME") {
        roots.push(Path::new(&home).join(".local/share"));
    }
    for name in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_DATA_DIRS"] {
        if let Some(dirs) = env::var_os(name) {
            roots.extend(env::split_paths(&dirs));
        }
    }
    roots.push(PathBuf::from("/run/opengl-driver/share"));
    roots.iter().any(|root| {
        let Ok(entries) = root.join("vulkan/icd.d").read_dir() else {
            return false;
        };
        entries
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|ext| ext == "json"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vulkan_is_for_those_who_use_it() {
        let needs = |line: &str| {
            let args: Vec<_> = line.split_whitespace().map(str::to_string).collect();
            needed(&args, &["--list", "compare"])
        };
        assert!(needs("") && needs("--filter add --device webgpu --json"));
        assert!(!needs("--device cpu") && !needs("--filter add --device=cuda"));
        assert!(!needs("--list") && !needs("compare a b") && !needs("--help"));
    }
}
