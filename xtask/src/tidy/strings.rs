//! Checks that shader text is in .wgsl files, not in Rust strings.

use super::{Finding, Tree, What, SRC};

const SHADER: &str = "candle-webgpu/src/shader";
const OTHERS: [&str; 2] = ["candle-core/src", "candle-nn/src"];

/// Words that are frequent in WGSL and rare in strings of several lines of prose.
const SIGNS: [&str; 8] = [
    "fn ", "var<", "let ", "return ", "@group", "struct ", "alias ", "for (",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if tree.code(SHADER).next().is_none() {
        findings.push(Finding::missing(
            SHADER,
            "the folder that builds shader text",
        ));
    }
    let ours = tree.shipped(SRC).into_iter();
    let others = OTHERS.into_iter().flat_map(|folder| tree.shipped(folder));
    for (path, code) in ours
        .chain(others)
        .filter(|(path, _)| !path.starts_with(SHADER))
    {
        for (line, text) in &code.strings {
            if let Some(lines) = lines_of_wgsl(text) {
                let text = format!(
                    "a string of {lines} lines of WGSL outside shader/; move it to a file of wgsl/"
                );
                findings.push(Finding::new(What::String, path, *line, text));
            }
        }
    }
    findings
}

/// The number of lines of a text, if it has several and looks like WGSL.
fn lines_of_wgsl(text: &str) -> Option<usize> {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let wgsl = SIGNS.iter().any(|sign| {
        text.match_indices(sign).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    });
    (lines > 1 && wgsl).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn several_lines_of_wgsl_are_found() {
        let text = "fn f() {\n    let s = format!(\"fn {n}() {{\\n    return 1; }}\"); }";
        let found = check(&tree(&[
            ("candle-webgpu/src/shader/link.rs", text),
            ("candle-webgpu/src/kernel/a.rs", text),
            ("candle-webgpu/src/kernel/tests.rs", text),
            ("candle-core/src/b.rs", text),
        ]));
        let found: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.line)).collect();
        let wanted = [
            ("candle-webgpu/src/kernel/a.rs", 2),
            ("candle-core/src/b.rs", 2),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn other_strings_pass() {
        for text in [
            "fn f() { return; }",
            "let x = 1;\n",
            "an outlet of\nwater",
            "two lines\nof prose",
        ] {
            assert_eq!(lines_of_wgsl(text), None, "{text}");
        }
        assert_eq!(lines_of_wgsl("@group(0)\n\nvar x"), Some(2));
    }
}
