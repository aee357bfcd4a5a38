//! The shaders that `wgsl-dump` wrote: their texts, and what shaders.tsv says of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One specialization.
#[derive(Debug, Clone)]
pub struct Shader {
    /// As in golden/index.txt.
    pub name: String,
    /// Kernel and variant, for example `gemv_k.sub32`.
    pub kernel: String,
    /// Values of all `override` constants.
    pub constants: Vec<(String, f64)>,
    /// Bytes of workgroup memory.
    pub shared: u32,
    /// Uses subgroup operations.
    pub subgroups: bool,
    /// Uses cooperative matrices.
    pub cooperative: bool,
    pub path: PathBuf,
}

impl Shader {
    pub fn text(&self) -> Result<String> {
        let text = std::fs::read_to_string(&self.path);
        text.with_context(|| self.path.display().to_string())
    }

    fn parse(dir: &Path, line: &str) -> Option<Shader> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (name, kernel, constants, shared, features) =
            (next()?, next()?, next()?, next()?, next()?);
        let constant = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Some(Shader {
            name: name.to_owned(),
            kernel: kernel.to_owned(),
            constants: constants.split(',').map(constant).collect::<Option<_>>()?,
            shared: shared.parse().ok()?,
            subgroups: features.contains("subgroups"),
            cooperative: features.contains("cooperative"),
            path: dir.join(format!("{}.wgsl", name.replace(':', "-"))),
        })
    }
}

/// All shaders of a folder.
pub fn read(dir: &Path) -> Result<Vec<Shader>> {
    let index = dir.join("shaders.tsv");
    let text = std::fs::read_to_string(&index);
    let text = text.with_context(|| format!("{}: run wgsl-dump first", index.display()))?;
    let parse = |line| Shader::parse(dir, line).with_context(|| format!("unknown line: {line}"));
    text.lines().map(parse).collect()
}

/// At most `most` shaders of each kernel, spread evenly over its list, with their numbers.
pub fn sample(shaders: impl Iterator<Item = (usize, Shader)>, most: usize) -> Vec<(usize, Shader)> {
    let mut kernels = BTreeMap::<String, Vec<_>>::new();
    for (number, shader) in shaders {
        let kernel = kernels.entry(shader.kernel.clone()).or_default();
        kernel.push((number, shader));
    }
    let spread = |all: Vec<(usize, Shader)>| {
        let (len, count) = (all.len(), all.len().min(most));
        (0..count).map(move |i| all[i * len / count].clone())
    };
    kernels.into_values().flat_map(spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_shader() {
        let line = "gemv_k.sub32.1x2\tgemv_k.sub32\tWORKGROUP=32,SPAN=32\t512\tsubgroups";
        let shader = Shader::parse(Path::new("dir"), line).expect("a shader");
        assert_eq!(shader.constants[1], ("SPAN".to_owned(), 32.0));
        assert!(shader.subgroups && !shader.cooperative);
        assert!(Shader::parse(Path::new("dir"), "gemv_k\tgemv_k").is_none());
    }

    #[test]
    fn a_sample_has_every_kernel() {
        let shader = |kernel: &str, i: usize| Shader {
            name: format!("{kernel}.{i}"),
            kernel: kernel.to_owned(),
            constants: Vec::new(),
            shared: 0,
            subgroups: false,
            cooperative: false,
            path: PathBuf::new(),
        };
        let all = (0..100).map(|i| shader("a", i)).chain([shader("b", 0)]);
        let chosen = sample(all.enumerate(), 4);
        let names: Vec<_> = chosen.into_iter().map(|(_, shader)| shader.name).collect();
        assert_eq!(names, ["a.0", "a.25", "a.50", "a.75", "b.0"]);
    }
}
