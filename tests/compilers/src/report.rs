//! What the compilers said, as faults and as the tables of docs/compilers.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::compiler::{Outcome, Target};
use crate::known::{Fault, Known};
use crate::shader::Shader;

/// Kernels in which most of a model's time passes, by the beginnings of their names.
const HOT: [&str; 7] = [
    "conv_coop",
    "flash",
    "gemm",
    "gemv",
    "layer_norm",
    "rms_norm",
    "softmax",
];
/// The fewest waves a SIMD with which a hot kernel hides the latency of memory.
pub const WAVES: u64 = 4;

/// A target's compiler and what it made of each shader.
pub struct Run {
    pub target: Target,
    pub compiler: String,
    pub outcomes: Vec<(Shader, Outcome)>,
}

fn value(outcome: &Outcome, name: &str) -> Option<u64> {
    match outcome {
        Outcome::Compiled(all) => all.iter().find(|(of, _)| of == name).map(|(_, v)| *v),
        _ => None,
    }
}

fn is_hot(shader: &Shader) -> bool {
    let hot = HOT.iter().any(|kernel| shader.kernel.starts_with(kernel));
    // GPUs do not use the variants for software adapters.
    hot && !shader.kernel.ends_with(".alone")
}

fn fault(shader: &Shader, outcome: &Outcome) -> Option<(Fault, String)> {
    let spilled = value(outcome, "Spilled VGPRs").filter(|n| *n > 0);
    let waves = value(outcome, "Subgroups per SIMD").filter(|n| *n < WAVES);
    match outcome {
        Outcome::Failed(error) => Some((Fault::Failed, error.clone())),
        Outcome::Crashed(how) => Some((Fault::Crashed, how.clone())),
        _ if !is_hot(shader) => None,
        _ => spilled
            .map(|n| (Fault::Spills, format!("{n} registers spilled")))
            .or(waves.map(|n| (Fault::FewWaves, format!("{n} waves a SIMD")))),
    }
}

pub struct Verdict {
    /// Shaders without faults, each with its target.
    pub passed: Vec<String>,
    /// Those with faults that are not known, and what is wrong.
    pub faults: Vec<(String, String)>,
    /// How often each row of the list was met.
    pub known: BTreeMap<usize, usize>,
    /// Known ones that did not occur though their kernel was compiled.
    pub stale: Vec<String>,
}

impl Verdict {
    pub fn wrong(&self) -> usize {
        self.faults.len() + self.stale.len()
    }

    /// What a test program would print: a test for each shader and target.
    pub fn tests(&self) -> String {
        let known: usize = self.known.values().sum();
        let mut out = format!("running {} tests\n", self.passed.len() + self.wrong());
        for name in &self.passed {
            let _ = writeln!(out, "test {name} ... ok");
        }
        for (name, what) in &self.faults {
            let _ = writeln!(out, "{name}: {what}\ntest {name} ... FAILED");
        }
        for line in &self.stale {
            let _ = writeln!(out, "test {line} ... FAILED");
        }
        let result = if self.wrong() == 0 { "ok" } else { "FAILED" };
        let (passed, wrong) = (self.passed.len(), self.wrong());
        let _ = writeln!(out, "known failures: {known}");
        let _ = writeln!(
            out,
            "test result: {result}. {passed} passed; {wrong} failed"
        );
        out
    }
}

/// `all`: the runs have all shaders, not a sample.
pub fn judge(runs: &[Run], list: &[Known], all: bool) -> Verdict {
    let mut verdict = Verdict {
        passed: Vec::new(),
        faults: Vec::new(),
        known: BTreeMap::new(),
        stale: Vec::new(),
    };
    for run in runs {
        let target = run.target.to_string();
        for (shader, outcome) in &run.outcomes {
            let name = format!("{target}: {}", shader.name);
            let Some((fault, what)) = fault(shader, outcome) else {
                if *outcome != Outcome::NotApplicable {
                    verdict.passed.push(name);
                }
                continue;
            };
            let expected = list.iter().position(|known| {
                let same = shader.kernel == known.kernel && known.faults.contains(&fault);
                same && is_of(run, known)
            });
            if let Some(at) = expected {
                *verdict.known.entry(at).or_default() += 1;
            } else {
                let what = format!("{fault:?}: {what}");
                verdict.faults.push((name, what));
            }
        }
    }
    for (at, known) in list.iter().enumerate() {
        let ran = runs.iter().any(|run| {
            let mut kernels = run.outcomes.iter().map(|(shader, _)| &shader.kernel);
            is_of(run, known) && kernels.any(|kernel| kernel == known.kernel)
        });
        if ran && (all || !known.rare) && !verdict.known.contains_key(&at) {
            let (kernel, faults) = (known.kernel, known.faults);
            let line = format!("{kernel} is listed with {faults:?}, which did not occur");
            verdict.stale.push(line);
        }
    }
    verdict
}

fn is_of(run: &Run, known: &Known) -> bool {
    let target = run.target.to_string();
    let mut targets = known.targets.iter();
    run.compiler.contains(known.compiler) && targets.any(|name| target.starts_with(name))
}

/// The kernels of a run, in order, with their outcomes.
fn kernels(run: &Run) -> BTreeMap<&str, Vec<&Outcome>> {
    let mut all = BTreeMap::<&str, Vec<&Outcome>>::new();
    for (shader, outcome) in &run.outcomes {
        all.entry(&shader.kernel).or_default().push(outcome);
    }
    all
}

fn count(outcomes: &[&Outcome], is: impl Fn(&Outcome) -> bool) -> usize {
    outcomes.iter().filter(|outcome| is(outcome)).count()
}

/// VGPRs and waves of a kernel's largest code, and the most that spills.
fn cell(outcomes: Option<&Vec<&Outcome>>) -> String {
    let Some(outcomes) = outcomes else {
        return String::new();
    };
    let values = |name| outcomes.iter().filter_map(move |o| value(o, name));
    let (Some(registers), Some(waves)) =
        (values("VGPRs").max(), values("Subgroups per SIMD").min())
    else {
        let applies = |o: &Outcome| *o != Outcome::NotApplicable;
        return if count(outcomes, applies) == 0 {
            "—"
        } else {
            "failed"
        }
        .to_owned();
    };
    match values("Spilled VGPRs").max().filter(|n| *n > 0) {
        Some(spilled) => format!("{registers} / {waves}, {spilled} spilled"),
        None => format!("{registers} / {waves}"),
    }
}

/// The tables, as Markdown.
pub fn tables(runs: &[Run]) -> String {
    let mut out = String::from("| target | compiler | shaders | compiled | not applicable | failed | crashed | with spills |\n|---|---|---|---|---|---|---|---|\n");
    for run in runs {
        let outcomes: Vec<&Outcome> = run.outcomes.iter().map(|(_, outcome)| outcome).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            run.target,
            run.compiler,
            outcomes.len(),
            count(&outcomes, |o| matches!(o, Outcome::Compiled(_))),
            count(&outcomes, |o| *o == Outcome::NotApplicable),
            count(&outcomes, |o| matches!(o, Outcome::Failed(_))),
            count(&outcomes, |o| matches!(o, Outcome::Crashed(_))),
            count(&outcomes, |o| value(o, "Spilled VGPRs")
                .is_some_and(|n| n > 0)),
        );
    }
    let with_registers: Vec<&Run> = runs
        .iter()
        .filter(|run| matches!(run.target, Target::Radv { .. }))
        // Without those whose GPU has no subgroups of the size asked for.
        .filter(|run| {
            run.outcomes
                .iter()
                .any(|(_, o)| matches!(o, Outcome::Compiled(_)))
        })
        .collect();
    if with_registers.is_empty() {
        return out;
    }
    let heads: Vec<String> = with_registers
        .iter()
        .map(|run| format!(" {} |", run.target.to_string().trim_start_matches("radv ")))
        .collect();
    let _ = writeln!(out, "\n| kernel |{}", heads.concat());
    let _ = writeln!(out, "|---|{}", "---|".repeat(heads.len()));
    let columns: Vec<_> = with_registers.iter().map(|run| kernels(run)).collect();
    let names: BTreeSet<&str> = columns.iter().flat_map(|c| c.keys().copied()).collect();
    for name in names {
        let cells = columns
            .iter()
            .map(|column| format!(" {} |", cell(column.get(name))));
        let _ = writeln!(out, "| `{name}` |{}", cells.collect::<String>());
    }
    out
}

/// The lines around the tables of a page.
const MARKERS: [&str; 2] = [
    "<!-- generated by cargo xtask shaders -->",
    "<!-- end generated -->",
];

/// Replaces the tables of a page.
pub fn write(page: &Path, tables: &str) -> Result<()> {
    let name = || page.display().to_string();
    let text = fs::read_to_string(page).with_context(name)?;
    let [begin, end] = MARKERS;
    let parts = text.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let (before, after) = parts.with_context(|| format!("{} has no {begin}", name()))?;
    let text = format!("{before}{begin}\n\n{tables}\n{end}{after}");
    fs::write(page, text).with_context(name)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn run(outcomes: &[(&str, Outcome)]) -> Run {
        let shader = |kernel: &str| Shader {
            name: format!("{kernel}.f32"),
            kernel: kernel.to_owned(),
            constants: Vec::new(),
            shared: 0,
            subgroups: false,
            cooperative: None,
            path: PathBuf::new(),
        };
        Run {
            target: Target::Radv {
                family: "navi21".into(),
                subgroup: None,
                mesa: None,
            },
            compiler: "RADV".into(),
            outcomes: outcomes
                .iter()
                .map(|(k, o)| (shader(k), o.clone()))
                .collect(),
        }
    }

    fn code(registers: u64, spilled: u64, waves: u64) -> Outcome {
        let statistics = [
            ("VGPRs", registers),
            ("Spilled VGPRs", spilled),
            ("Subgroups per SIMD", waves),
        ];
        Outcome::Compiled(
            statistics
                .map(|(name, value)| (name.to_owned(), value))
                .to_vec(),
        )
    }

    const LIST: &[Known] = &[Known {
        targets: &["radv navi"],
        kernel: "gemm",
        compiler: "RADV",
        faults: &[Fault::Spills],
        why: "a test",
        rare: false,
    }];

    #[test]
    fn hot_kernels_may_not_spill() {
        let runs = [run(&[
            ("gemm", code(256, 9, 8)),
            ("gemv_k", code(256, 0, 2)),
            ("sort", code(256, 9, 2)),
        ])];
        let verdict = judge(&runs, LIST, true);
        assert_eq!(verdict.known[&0], 1);
        let fault = ("radv navi21: gemv_k.f32", "FewWaves: 2 waves a SIMD");
        assert_eq!(verdict.faults, [(fault.0.into(), fault.1.into())]);
        assert!(verdict.stale.is_empty());
        assert_eq!(
            verdict.tests(),
            "running 2 tests\ntest radv navi21: sort.f32 ... ok\n\
             radv navi21: gemv_k.f32: FewWaves: 2 waves a SIMD\ntest radv navi21: gemv_k.f32 ... FAILED\n\
             known failures: 1\ntest result: FAILED. 1 passed; 1 failed\n"
        );
    }

    #[test]
    fn what_is_listed_must_occur() {
        let verdict = judge(&[run(&[("gemm", code(64, 0, 16))])], LIST, true);
        assert_eq!((verdict.stale.len(), verdict.faults.len()), (1, 0));
        let others = judge(
            &[run(&[("sort", Outcome::Crashed("signal 11".into()))])],
            LIST,
            true,
        );
        assert_eq!((others.stale.len(), others.faults.len()), (0, 1));
    }

    #[test]
    fn a_row_for_each_kernel() {
        let tables = tables(&[run(&[
            ("gemm", code(256, 9, 8)),
            ("gemm", code(64, 0, 16)),
            ("sort", Outcome::NotApplicable),
        ])]);
        assert!(
            tables.contains("| radv navi21 | RADV | 3 | 2 | 1 | 0 | 0 | 1 |"),
            "{tables}"
        );
        assert!(
            tables.contains("| `gemm` | 256 / 8, 9 spilled |"),
            "{tables}"
        );
        assert!(tables.contains("| `sort` | — |"), "{tables}");
    }
}
