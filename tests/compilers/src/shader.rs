//! The shaders that `wgsl-dump` wrote: their texts, and what shaders.tsv says of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The cooperative matrices of a shader, which it has for one kind of adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrices {
    /// M, N and K.
    pub side: u32,
    /// Invocations of a subgroup. With others, the kernel does nothing.
    pub lanes: u32,
}

impl Matrices {
    /// Those that the name of a specialization tells, for example `64x64.quads.16x64`: 16 x 16 with subgroups of 64. Without such a part,
    /// 16 x 16 with subgroups of 32.
    fn of(name: &str) -> Self {
        let kinds = [("8x8", 8, 8), ("8x32", 8, 32), ("16x64", 16, 64)];
        let mut parts = name.split('.');
        let found = parts.find_map(|part| kinds.into_iter().find(|(of, ..)| *of == part));
        let (_, side, lanes) = found.unwrap_or(("", 16, 32));
        Matrices { side, lanes }
    }
}

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
    pub cooperative: Option<Matrices>,
    pub path: PathBuf,
}

impl Shader {
    pub fn text(&self) -> Result<String> {
        let text = std::fs::read_to_string(&self.path);
        text.with_context(|| self.path.display().to_string())
    }

    /// Whether it is chosen where every subgroup has 64 invocations (`Gpu::wide_subgroups` of candle-webgpu): no `dot4`, smaller tiles of a
    /// quantized matrix, and a subgroup for one row at most.
    pub fn suits_wide_subgroups(&self) -> bool {
        let op = self.name[self.kernel.len()..].trim_start_matches('.');
        let is = |tiles: &[&str]| tiles.iter().any(|tile| op.starts_with(tile));
        let is_dense = !self.name.split('.').any(|part| {
            let rest = part.strip_prefix('q');
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        match self.kernel.as_str() {
            kernel if kernel.starts_with("gemv_dot") => false,
            kernel if kernel.starts_with("gemv") && kernel.ends_with(".sub32") => false,
            kernel if kernel.starts_with("gemv") && kernel.ends_with(".sub128") => is(&["1x"]),
            "gemv_k" => is_dense || is(&["1x2", "2x2", "4x2"]),
            "gemm" => is_dense || is(&["32x64"]),
            "flash" => is(&["32x"]),
            _ => true,
        }
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
            cooperative: features.contains("cooperative").then(|| Matrices::of(name)),
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

/// At most `most` shaders of each kernel, spread evenly over those that `suits` accepts, if there are any, with their numbers.
pub fn sample(
    shaders: impl Iterator<Item = (usize, Shader)>,
    most: usize,
    suits: impl Fn(&Shader) -> bool,
) -> Vec<(usize, Shader)> {
    let mut kernels = BTreeMap::<String, Vec<_>>::new();
    for (number, shader) in shaders {
        let kernel = kernels.entry(shader.kernel.clone()).or_default();
        kernel.push((number, shader));
    }
    let spread = |mut all: Vec<(usize, Shader)>| {
        if all.iter().any(|(_, shader)| suits(shader)) {
            all.retain(|(_, shader)| suits(shader));
        }
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
        assert!(shader.subgroups && shader.cooperative.is_none());
        assert!(Shader::parse(Path::new("dir"), "gemv_k\tgemv_k").is_none());
    }

    #[test]
    fn names_tell_matrices() {
        let of = |name| {
            let Matrices { side, lanes } = Matrices::of(name);
            (side, lanes)
        };
        assert_eq!(of("gemm_coop.64x64.quads.16x64.f16:raw"), (16, 64));
        assert_eq!(of("gemm_coop.128x128.f16:raw"), (16, 32));
        assert_eq!(of("conv_coop.64x64.steps.8x8.f16:raw"), (8, 8));
    }

    #[test]
    fn wide_subgroups_have_tiles_of_their_own() {
        let suits = |kernel: &str, rest: &str| {
            let line = format!("{kernel}.{rest}\t{kernel}\tSPAN=64\t0\t");
            let shader = Shader::parse(Path::new("dir"), &line).expect("a shader");
            shader.suits_wide_subgroups()
        };
        assert!(suits("gemv_k", "4x4.f16:raw.f16:raw.f16:set.SPAN=64"));
        assert!(suits("gemv_k", "4x2.f16:raw.q4_0.f16:set.SPAN=64"));
        assert!(!suits("gemv_k", "4x4.f16:raw.q4_0.f16:set.SPAN=64"));
        assert!(!suits("gemv_k.sub32", "1x2.f16:raw.f16:raw.f16:set"));
        assert!(!suits("gemv_k.sub128", "2x4.f16:raw.f16:raw.f16:set"));
        assert!(suits("gemm", "128x128.f16:quads.f16:quads.f16:put"));
        assert!(!suits("gemm", "128x128.f16:quads.q8_0.f16:put"));
        assert!(!suits("flash", "64x64.f16:quads") && suits("flash", "32x64.f16:quads"));
    }

    #[test]
    fn a_sample_has_every_kernel() {
        let shader = |kernel: &str, i: usize| Shader {
            name: format!("{kernel}.{i}"),
            kernel: kernel.to_owned(),
            constants: Vec::new(),
            shared: 0,
            subgroups: false,
            cooperative: None,
            path: PathBuf::new(),
        };
        let all = (0..100).map(|i| shader("a", i)).chain([shader("b", 0)]);
        let even = |shader: &Shader| !shader.name.ends_with(['1', '3', '5', '7', '9', 'b']);
        let names = |suits: &dyn Fn(&Shader) -> bool| -> Vec<String> {
            let chosen = sample(all.clone().enumerate(), 4, suits);
            chosen.into_iter().map(|(_, shader)| shader.name).collect()
        };
        assert_eq!(names(&|_| true), ["a.0", "a.25", "a.50", "a.75", "b.0"]);
        // Of those that suit, unless none does.
        assert_eq!(names(&even), ["a.0", "a.24", "a.50", "a.74", "b.0"]);
        assert_eq!(names(&|shader| shader.kernel == "a").len(), 5);
    }
}
