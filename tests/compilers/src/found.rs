//! Outcomes on disk, so that an interrupted run of hours loses nothing: a line for each shader as it is compiled.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compiler::{Outcome, Target};
use crate::shader::Shader;

/// The outcomes of one target, in a file that begins with the compiler's name.
pub struct Found {
    path: PathBuf,
    file: Option<File>,
    compiler: String,
    outcomes: HashMap<String, Outcome>,
}

/// The shader's name, and a hash of its text and constants: a changed shader is compiled again.
fn key(shader: &Shader) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    format!("{:?}{}", shader.constants, shader.text()?).hash(&mut hasher);
    Ok(format!("{}\t{:016x}", shader.name, hasher.finish()))
}

impl Found {
    /// A file in `dir` for the target, empty unless `resume` asks for what an earlier run left in it.
    pub fn open(dir: &Path, target: &Target, resume: bool) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(format!("{}.tsv", target.to_string().replace(' ', "-")));
        let text = match resume && path.exists() {
            true => fs::read_to_string(&path)?,
            false => String::new(),
        };
        let mut lines = text.lines();
        let compiler = lines.next().unwrap_or_default().to_owned();
        let outcome = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let (name, hash, outcome) = (fields.next()?, fields.next()?, fields.next()?);
            // The last line may be cut off, and a crash may be that of the interrupted run.
            let outcome: Outcome = outcome.parse().ok()?;
            let crashed = matches!(outcome, Outcome::Crashed(_));
            (!crashed).then(|| (format!("{name}\t{hash}"), outcome))
        };
        let outcomes = lines.filter_map(outcome).collect();
        Ok(Found {
            path,
            file: None,
            compiler,
            outcomes,
        })
    }

    /// What an earlier run made of a shader, by this compiler.
    pub fn get(&self, shader: &Shader, compiler: &str) -> Result<Option<Outcome>> {
        if self.outcomes.is_empty() || self.compiler != compiler {
            return Ok(None);
        }
        Ok(self.outcomes.get(&key(shader)?).cloned())
    }

    pub fn add(&mut self, shader: &Shader, compiler: &str, outcome: &Outcome) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let same = self.compiler == compiler && !self.outcomes.is_empty();
                let mut options = OpenOptions::new();
                options.create(true).write(true);
                let options = options.append(same).truncate(!same);
                let mut file = options
                    .open(&self.path)
                    .with_context(|| self.path.display().to_string())?;
                // Ends a line that was cut off.
                let head = if same { "" } else { compiler };
                writeln!(file, "{head}")?;
                self.file.insert(file)
            }
        };
        writeln!(file, "{}\t{outcome}", key(shader)?)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_resumed() -> Result<()> {
        let dir = std::env::temp_dir().join(format!("found-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let shaders = ["a", "b", "c"].map(|name| Shader {
            name: name.to_owned(),
            kernel: name.to_owned(),
            constants: Vec::new(),
            shared: 0,
            subgroups: false,
            cooperative: None,
            path: dir.join(name),
        });
        for shader in &shaders {
            fs::write(&shader.path, "fn main() {}")?;
        }
        let [a, b, c] = &shaders;
        let compiled = Outcome::Compiled(vec![("VGPRs".into(), 24)]);
        let mut first = Found::open(&dir, &Target::Naga, false)?;
        first.add(a, "naga", &compiled)?;
        first.add(b, "naga", &Outcome::Crashed("signal 2".into()))?;
        let mut second = Found::open(&dir, &Target::Naga, true)?;
        assert_eq!(second.get(a, "naga")?, Some(compiled.clone()));
        assert_eq!(second.get(a, "another")?, None);
        assert_eq!(second.get(b, "naga")?, None);
        second.add(c, "naga", &compiled)?;
        let third = Found::open(&dir, &Target::Naga, true)?;
        assert_eq!(third.get(a, "naga")?, Some(compiled.clone()));
        assert_eq!(third.get(c, "naga")?, Some(compiled));
        fs::write(&c.path, "fn main() { return; }")?;
        assert_eq!(third.get(c, "naga")?, None);
        assert_eq!(
            Found::open(&dir, &Target::Naga, false)?.get(a, "naga")?,
            None
        );
        Ok(fs::remove_dir_all(dir)?)
    }
}
