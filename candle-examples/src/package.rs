//! Downloads a package of npm, PyPI or crates.io by name and version.
//!
//! The ordinary clients are tried first, since they honour the user's registry, proxy and certificates; if they are not
//! installed, the registries' public endpoints serve the same files. Cargo has no command that only downloads a crate,
//! so crates always come from the endpoint.

use crate::error::{Error, Result};
use crate::progress;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registry {
    Npm,
    PyPi,
    Crates,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Package {
    pub registry: Registry,
    pub name: &'static str,
    pub version: &'static str,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.registry {
            Registry::Npm => write!(f, "npm {}@{}", self.name, self.version),
            Registry::PyPi => write!(f, "PyPI {}=={}", self.name, self.version),
            Registry::Crates => write!(f, "crate {}@{}", self.name, self.version),
        }
    }
}

impl Package {
    /// Downloads the package into `dir`, which must be empty, and returns the archive's path.
    pub fn download(&self, dir: &Path) -> Result<PathBuf> {
        let mut tried = Vec::new();
        for mut command in self.clients(dir) {
            let client = command.get_program().to_string_lossy().into_owned();
            let spinner = progress::spinner(&format!("{client}: downloading {self}"));
            let output = command.stdin(Stdio::null()).output();
            spinner.finish_and_clear();
            match output {
                Ok(output) if output.status.success() => return only_file(dir),
                Ok(output) => tried.push(format!("{client}: {}", reason(&output.stderr))),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => tried.push(format!("{client}: {e}")),
            }
        }
        match self.download_https(dir) {
            Ok(path) => Ok(path),
            Err(e) => {
                tried.push(format!("https: {e}"));
                Err(Error::Package {
                    package: self.to_string(),
                    reason: tried.join("; "),
                })
            }
        }
    }

    fn clients(&self, dir: &Path) -> Vec<Command> {
        let version = self.version;
        match self.registry {
            Registry::Npm => {
                let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
                let mut command = Command::new(npm);
                command
                    .args(["pack", "--silent", &format!("{}@{version}", self.name)])
                    .current_dir(dir);
                vec![command]
            }
            Registry::PyPi => {
                let wanted = format!("{}=={version}", self.name);
                let args = ["download", "--quiet", "--no-deps", &wanted];
                let command = |program: &str, first: &[&str]| {
                    let mut command = Command::new(program);
                    command.args(first).args(args).current_dir(dir);
                    command
                };
                vec![
                    command("pip", &[]),
                    command("pip3", &[]),
                    command("python3", &["-m", "pip"]),
                ]
            }
            Registry::Crates => Vec::new(),
        }
    }

    fn download_https(&self, dir: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
        let agent = agent(Duration::from_secs(10), None);
        let url = match self.registry {
            Registry::Npm => {
                let unscoped = self.name.rsplit('/').next().unwrap_or(self.name);
                format!(
                    "https://registry.npmjs.org/{}/-/{unscoped}-{}.tgz",
                    self.name, self.version
                )
            }
            Registry::PyPi => {
                let index = format!("https://pypi.org/pypi/{}/json", self.name);
                let index: serde_json::Value = agent.get(&index).call()?.body_mut().read_json()?;
                wheel_url(&index, self.version).ok_or("the index lists no file of this version")?
            }
            Registry::Crates => format!(
                "https://static.crates.io/crates/{0}/{0}-{1}.crate",
                self.name, self.version
            ),
        };
        let name = url.rsplit('/').next().unwrap_or("package");
        let path = dir.join(name);
        let mut response = agent.get(&url).call()?;
        let length = response.body().content_length().unwrap_or(0);
        let bar = progress::bytes(&self.to_string(), length);
        let body = response.body_mut().with_config().limit(u64::MAX).reader();
        let copied = io::copy(&mut bar.wrap_read(body), &mut File::create(&path)?)?;
        bar.finish_and_clear();
        if length != 0 && copied != length {
            return Err(format!("the download ended after {copied} of {length} bytes").into());
        }
        Ok(path)
    }
}

/// An HTTP client with a short connection timeout; `total` limits a whole request.
pub fn agent(connect: Duration, total: Option<Duration>) -> ureq::Agent {
    use ureq::tls::{RootCerts, TlsConfig};
    // The system's certificates, as the other clients use, instead of a built-in list.
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .timeout_global(total)
        .build()
        .into()
}

/// The URL of any wheel, since only data is taken from it; else of the source distribution.
fn wheel_url(index: &serde_json::Value, version: &str) -> Option<String> {
    let files = index.get("releases")?.get(version)?.as_array()?;
    let is_wheel = |f: &&serde_json::Value| f["packagetype"] == "bdist_wheel";
    let file = files.iter().find(is_wheel).or_else(|| files.first())?;
    Some(file.get("url")?.as_str()?.to_string())
}

/// The only file in `dir`: the archive that a client downloaded.
fn only_file(dir: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(dir).map_err(Error::io(dir))?;
    match files.next() {
        Some(file) => Ok(file.map_err(Error::io(dir))?.path()),
        None => Err(Error::Missing {
            what: "downloaded package",
            path: dir.to_path_buf(),
        }),
    }
}

/// The last line of a failed client's output.
fn reason(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rfind(|l| !l.trim().is_empty());
    last.unwrap_or("failed without a message").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_preferred_to_the_source() {
        let index = serde_json::json!({"releases": {"1.0": [
            {"packagetype": "sdist", "url": "https://host/a.tar.gz"},
            {"packagetype": "bdist_wheel", "url": "https://host/a.whl"},
        ]}});
        assert_eq!(
            wheel_url(&index, "1.0").as_deref(),
            Some("https://host/a.whl")
        );
        assert_eq!(wheel_url(&index, "2.0"), None);
    }

    #[test]
    fn the_last_line_is_the_reason() {
        assert_eq!(reason(b"npm error 404\n\n"), "npm error 404");
        assert_eq!(reason(b""), "failed without a message");
    }
}
