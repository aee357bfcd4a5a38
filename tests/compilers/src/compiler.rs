//! The compilers, and what one makes of a shader.

use std::fmt;
use std::path::PathBuf;

use anyhow::{bail, Result};

use crate::dxc::Dxc;
use crate::radv::Radv;
use crate::shader::Shader;
use crate::translate::Translated;

/// Bytes of workgroup memory that DX12 has. candle-webgpu asks for no more than an adapter reports.
const DX12_SHARED: u32 = 32 << 10;

/// The sides of a cooperative matrix of AMD's.
const RDNA_SIDE: u32 = 16;
/// Invocations of the subgroups that RADV prefers.
const RADV_LANES: u32 = 64;

/// Families of GPUs on which every subgroup has 64 invocations.
const GCN: [&str; 2] = ["polaris10", "vega10"];

/// A compiler and its target, by its name on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// naga's SPIR-V, HLSL and MSL.
    Naga,
    /// Microsoft's DXC, on naga's HLSL.
    Dxc { library: PathBuf },
    /// AMD's compiler in Mesa (ACO), on naga's SPIR-V: a family of GPUs, and the size that subgroups must have.
    Radv {
        family: String,
        subgroup: Option<u32>,
        /// The root of another Mesa than the system's.
        mesa: Option<PathBuf>,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Naga => f.write_str("naga"),
            Target::Dxc { .. } => f.write_str("dxc"),
            Target::Radv {
                family,
                subgroup: None,
                ..
            } => write!(f, "radv {family}"),
            Target::Radv {
                family,
                subgroup: Some(size),
                ..
            } => {
                write!(f, "radv {family} wave{size}")
            }
        }
    }
}

impl Target {
    /// Whether a shader is for such a target. Not every GPU of those that may run it can: drivers tell.
    pub fn suits(&self, shader: &Shader) -> bool {
        match self {
            Target::Naga => true,
            Target::Dxc { .. } => shader.cooperative.is_none() && shader.shared <= DX12_SHARED,
            // RADV compiles workgroups of 128, which all kernels with cooperative matrices have, for subgroups of 64 unless told otherwise.
            Target::Radv {
                family, subgroup, ..
            } => {
                let lanes = subgroup.unwrap_or(RADV_LANES);
                let cooperative = shader.cooperative;
                let wide = GCN.contains(&family.as_str());
                cooperative.is_none_or(|m| m.side == RDNA_SIDE && m.lanes == lanes)
                    && (!wide || shader.suits_wide_subgroups())
            }
        }
    }
}

/// What a compiler reports of a shader's code, for example `VGPRs`.
pub type Statistics = Vec<(String, u64)>;

pub enum Compiler {
    Naga,
    Dxc(Dxc),
    Radv(Box<Radv>),
}

impl Compiler {
    pub fn open(target: &Target) -> Result<Self> {
        Ok(match target {
            Target::Naga => Compiler::Naga,
            Target::Dxc { library } => Compiler::Dxc(Dxc::open(library)?),
            Target::Radv { subgroup, .. } => Compiler::Radv(Box::new(Radv::open(*subgroup)?)),
        })
    }

    /// What adapter and driver the compiler is of.
    pub fn name(&self) -> String {
        match self {
            Compiler::Naga => "naga".to_owned(),
            Compiler::Dxc(_) => "DXC".to_owned(),
            Compiler::Radv(radv) => radv.name.clone(),
        }
    }

    /// Compiles a shader that suits the target. None if it cannot run it.
    pub fn compile(&self, shader: &Shader) -> Result<Option<Statistics>> {
        match self {
            Compiler::Naga => {
                let translated = Translated::new(shader, false)?;
                let words = translated.spirv()?.len() as u64;
                let mut statistics = vec![("SPIR-V words".to_owned(), words)];
                // Neither HLSL nor MSL of naga has cooperative matrices for all GPUs.
                if shader.cooperative.is_none() {
                    let texts = [
                        ("HLSL bytes", translated.hlsl()?),
                        ("MSL bytes", translated.msl()?),
                    ];
                    let bytes = texts.map(|(name, text)| (name.to_owned(), text.len() as u64));
                    statistics.extend(bytes);
                }
                Ok(Some(statistics))
            }
            Compiler::Dxc(dxc) => dxc
                .compile(&Translated::new(shader, false)?.hlsl()?)
                .map(Some),
            Compiler::Radv(radv) if !radv.has(shader) => Ok(None),
            Compiler::Radv(radv) => radv.compile(&Translated::new(shader, true)?, shader.subgroups),
        }
    }
}

/// What became of a shader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Compiled(Statistics),
    /// The target cannot run it, or has made empty code of it.
    NotApplicable,
    Failed(String),
    /// The compiler ended the process, or did not return.
    Crashed(String),
}

/// One line of a worker process.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Compiled(statistics) => {
                f.write_str("compiled")?;
                statistics
                    .iter()
                    .try_for_each(|(name, value)| write!(f, "\t{name}={value}"))
            }
            Outcome::NotApplicable => f.write_str("not applicable"),
            Outcome::Failed(error) => write!(f, "failed\t{}", error.replace(['\n', '\t'], " ")),
            Outcome::Crashed(how) => write!(f, "crashed\t{how}"),
        }
    }
}

impl std::str::FromStr for Outcome {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let (kind, rest) = line.split_once('\t').unwrap_or((line, ""));
        Ok(match kind {
            "compiled" => {
                let pairs = rest.split('\t').filter_map(|pair| pair.split_once('='));
                let pair = |(name, value): (&str, &str)| Ok((name.to_owned(), value.parse()?));
                Outcome::Compiled(pairs.map(pair).collect::<Result<_>>()?)
            }
            "not applicable" => Outcome::NotApplicable,
            "failed" => Outcome::Failed(rest.to_owned()),
            "crashed" => Outcome::Crashed(rest.to_owned()),
            _ => bail!("a worker said {line:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_as_written() -> Result<()> {
        for outcome in [
            Outcome::Compiled(vec![("Spilled VGPRs".into(), 3), ("VGPRs".into(), 256)]),
            Outcome::Compiled(Vec::new()),
            Outcome::NotApplicable,
            Outcome::Failed("line 3: error".into()),
            Outcome::Crashed("signal 11".into()),
        ] {
            assert_eq!(outcome.to_string().parse::<Outcome>()?, outcome);
        }
        assert!("done".parse::<Outcome>().is_err());
        Ok(())
    }
}
