//! Checks that names replaced by standard terms do not return.

use std::collections::BTreeMap;

use super::exceptions::Config;
use super::{Finding, Tree, What, SRC, WGSL};

pub fn check(tree: &Tree, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, code) in tree.code(SRC) {
        identifiers(path, &code.idents, config, &mut findings);
    }
    for (path, text) in tree.below(WGSL, ".wgsl") {
        identifiers(path, &wgsl_idents(text), config, &mut findings);
    }
    let files = tree.below(SRC, ".rs").map(|(path, _)| (path, SRC));
    let shaders = tree.below(WGSL, ".wgsl").map(|(path, _)| (path, WGSL));
    for (path, folder) in files.chain(shaders) {
        let name = path[folder.len()..]
            .trim_end_matches(".rs")
            .trim_end_matches(".wgsl");
        for part in name.split('/') {
            if let Some((word, new)) = config.files.iter().find(|(word, _)| begins(part, word)) {
                let text = format!("the name `{part}` has the old word `{word}`; write `{new}`");
                findings.push(Finding::new(What::Word, path, 1, text));
            }
        }
    }
    findings
}

/// `fold` is the first word of `fold` and `fold_row`, not of `folder`.
fn begins(name: &str, word: &str) -> bool {
    let rest = name.strip_prefix(word);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// One error per word and file, at its first line.
fn identifiers(
    path: &str,
    idents: &[(usize, String)],
    config: &Config,
    findings: &mut Vec<Finding>,
) {
    let mut uses: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (line, name) in idents {
        if config.identifiers.contains_key(name) {
            uses.entry(name).or_default().push(*line);
        }
    }
    for (word, lines) in uses {
        let new = &config.identifiers[word];
        let text = format!(
            "`{word}` is an old word ({} uses); write `{new}`",
            lines.len()
        );
        findings.push(Finding::new(What::Word, path, lines[0], text));
    }
}

/// Identifiers outside comments, with their lines.
fn wgsl_idents(text: &str) -> Vec<(usize, String)> {
    let code = (1..).zip(
        text.lines()
            .map(|line| line.split("//").next().unwrap_or(line)),
    );
    let words = code.flat_map(|(number, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.map(move |word| (number, word.to_owned()))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn old_words_are_found() {
        let config =
            "identifiers = { Elem = 'DType', team = 'group' }\nfiles = { fold = 'reduce' }";
        let config = Config::parse(config.to_owned()).expect("valid");
        let found = check(
            &tree(&[
                (
                    "candle-webgpu/src/a.rs",
                    "// Elem\nfn f(e: Elem) {\n    g!(Elem) }\nstruct ElemRow;",
                ),
                ("candle-webgpu/src/folder.rs", "const S: &str = \"Elem\";"),
                ("candle-webgpu/src/kernel/fold/mod.rs", ""),
                (
                    "candle-webgpu/wgsl/kernel/fold_row.wgsl",
                    "// team\nlet x = team + 1; // team\nlet steam = team;",
                ),
                ("tests/b.rs", "fn f(e: Elem) {}"),
            ]),
            &config,
        );
        let found: Vec<_> = found
            .iter()
            .map(|f| format!("{}:{}: {}", f.path, f.line, f.text))
            .collect();
        assert_eq!(
            found,
            [
                "candle-webgpu/src/a.rs:2: `Elem` is an old word (2 uses); write `DType`",
                "candle-webgpu/wgsl/kernel/fold_row.wgsl:2: `team` is an old word (2 uses); write `group`",
                "candle-webgpu/src/kernel/fold/mod.rs:1: the name `fold` has the old word `fold`; write `reduce`",
                "candle-webgpu/wgsl/kernel/fold_row.wgsl:1: the name `fold_row` has the old word `fold`; write `reduce`",
            ]
        );
    }
}
