//! [`RULES`], and which of them are on.

use crate::error::{Error, Result};
use crate::fusion::rule::{Enabled, Rule};
use crate::fusion::{
    add_norm, attention, coalesce_copies, concat, dead_code, elementwise, fused_projections,
    fused_row, gemm_pair, growing_cache, matmul_epilogue, norm_scale_lines, projection_bias,
    qk_norm, rms_norm, rms_norm_matmul, rope_attention, rope_kv_cache, rope_qk, shared_block_mask,
    shared_scale_lines, softmax, split_k, split_softmax, tiled_transpose,
};

/// The rules, in the order in which they are tried.
///
/// - `attention` is before the rules that would take its matmuls, softmax and elementwise ops.
/// - `matmul_epilogue` takes the kernels of `fused_projections` and `elementwise`, `rms_norm_matmul` those of all three.
/// - `split_k`, `split_softmax` and `tiled_transpose` are last: other rules do not know their kernels.
pub const RULES: &[Rule] = &[
    coalesce_copies::RULE,
    dead_code::RULE,
    shared_scale_lines::RULE,
    softmax::RULE,
    rms_norm::RULE,
    attention::RULE,
    shared_block_mask::RULE,
    rope_qk::RULE,
    concat::RULE,
    add_norm::RULE,
    norm_scale_lines::RULE,
    fused_projections::RULE,
    projection_bias::RULE,
    rope_kv_cache::RULE,
    rope_attention::RULE,
    growing_cache::RULE,
    qk_norm::RULE,
    elementwise::RULE,
    fused_row::RULE,
    matmul_epilogue::RULE,
    rms_norm_matmul::RULE,
    gemm_pair::RULE,
    split_k::RULE,
    split_softmax::RULE,
    tiled_transpose::RULE,
];

/// Names that rules had in earlier versions.
const FORMER_NAMES: &[(&str, &Rule)] = &[
    ("copies", &coalesce_copies::RULE),
    ("stores", &dead_code::RULE),
    ("cats", &concat::RULE),
    ("norms", &add_norm::RULE),
    ("siblings", &fused_projections::RULE),
    ("ropes", &rope_qk::RULE),
    ("caches", &rope_kv_cache::RULE),
    ("chains", &elementwise::RULE),
    ("epilogues", &matmul_epilogue::RULE),
    ("prenorms", &rms_norm_matmul::RULE),
    ("rows", &split_softmax::RULE),
    ("transposes", &tiled_transpose::RULE),
];

/// The index of a rule in [`RULES`].
pub(super) fn position(name: &str) -> Option<usize> {
    RULES.iter().position(|rule| rule.name == name)
}

/// A set of rules: bit `i` stands for `RULES[i]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuleSet(pub(super) u32);

impl RuleSet {
    /// The rules that are on by default, changed by `list`, the value of the environment variable `variable`: `-attention` turns
    /// a rule off, `+dead_code` one on, `all` stands for all of them. `software`: the adapter computes on the CPU.
    pub fn parse(variable: &'static str, list: &str, software: bool) -> Result<Self> {
        let mut on = RuleSet::default_for(software);
        for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let (plus, name) = match word.split_at_checked(1) {
                Some(("+", name)) => (true, name),
                Some(("-", name)) => (false, name),
                _ => return Err(unknown(variable, word)),
            };
            let bits = match (name, position(name)) {
                ("all", _) => (1 << RULES.len()) - 1,
                (_, Some(at)) => 1 << at,
                (_, None) => return Err(unknown(variable, word)),
            };
            match plus {
                true => on.0 |= bits,
                false => on.0 &= !bits,
            }
        }
        Ok(on)
    }

    fn default_for(software: bool) -> Self {
        let on = |rule: &Rule| match rule.enabled {
            Enabled::Always => true,
            Enabled::Never => false,
            Enabled::OnGpu => !software,
        };
        let rules = RULES.iter().enumerate();
        RuleSet(rules.fold(0, |set, (at, rule)| set | u32::from(on(rule)) << at))
    }

    pub fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}

/// The error for a word that names no rule.
fn unknown(variable: &'static str, word: &str) -> Error {
    let name = word.trim_start_matches(['+', '-']);
    let mut former = FORMER_NAMES.iter();
    if let Some((_, rule)) = former.find(|(former, _)| *former == name) {
        return Error::RenamedValue {
            variable,
            value: name.into(),
            now: rule.name,
        };
    }
    let names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
    Error::BadVariable {
        variable,
        value: word.into(),
        wants: format!(
            "a rule with a sign, as in -{}; the rules are all, {}",
            names[0],
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fusion::Rewrites;

    const VARIABLE: &str = "CANDLE_WEBGPU_REWRITE";

    fn parse(list: &str) -> Result<RuleSet> {
        RuleSet::parse(VARIABLE, list, false)
    }

    fn on(list: &str) -> Result<Vec<&'static str>> {
        let rules = Rewrites::new(parse(list)?).report();
        Ok(rules.iter().filter(|r| r.on).map(|r| r.rule).collect())
    }

    #[test]
    fn lists() -> Result<()> {
        let name = coalesce_copies::RULE.name;
        assert!(on("")?.contains(&name));
        assert!(!on(&format!(" -{name},"))?.contains(&name));
        assert!(on("-all")?.is_empty());
        assert_eq!(on("+all")?.len(), RULES.len());
        assert_eq!(on("-all,+concat")?, ["concat"]);
        assert!(!Rewrites::new(parse("-all")?).rewrites_batches());
        Ok(())
    }

    #[test]
    fn defaults() -> Result<()> {
        for rule in RULES {
            let at = position(rule.name)
                .map(|at| [false, true].map(|software| RuleSet::default_for(software).has(at)));
            let expected = match rule.enabled {
                Enabled::Always => [true, true],
                Enabled::Never => [false, false],
                Enabled::OnGpu => [true, false],
            };
            assert_eq!(at, Some(expected), "{}", rule.name);
        }
        Ok(())
    }

    #[test]
    fn a_rule_alone_has_those_that_it_needs() -> Result<()> {
        for rule in RULES {
            let expected = rule.needs.iter().map(|rule| rule.name).chain([rule.name]);
            // In the order of the table, which is that in which they are tried.
            assert_eq!(on(&rule.alone())?, expected.collect::<Vec<_>>());
        }
        assert!(RULES.iter().any(|rule| !rule.needs.is_empty()));
        Ok(())
    }

    #[test]
    fn unknown_names() {
        for word in ["coalesce_copies", "-copy", "-", "+", "all"] {
            let error = parse(word).expect_err(word).to_string();
            assert!(error.contains(VARIABLE), "{error}");
            assert!(error.contains(&format!("{word:?}")), "{error}");
            assert!(
                RULES.iter().all(|rule| error.contains(rule.name)),
                "{error}"
            );
        }
    }

    #[test]
    fn former_names() {
        for (former, rule) in FORMER_NAMES {
            assert_eq!(position(former), None);
            let error = parse(&format!("-{former}")).expect_err(former);
            let said = error.to_string();
            assert!(said.contains(VARIABLE), "{said}");
            assert!(said.contains(&format!("{:?}", rule.name)), "{said}");
        }
    }
}
