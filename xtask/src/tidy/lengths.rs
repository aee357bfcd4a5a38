//! Checks the lengths of files.

use super::{Finding, Tree, What, SRC, WGSL};

const RUST: usize = 400;
const SHADER: usize = 150;
/// Entry pages must stay short.
const PAGES: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 150)];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, end) in [(SRC, ".rs"), (WGSL, ".wgsl")] {
        if tree.below(folder, end).next().is_none() {
            findings.push(Finding::missing(folder, "the source folder"));
        }
    }
    for (page, _) in PAGES {
        if tree.get(page).is_none() {
            findings.push(Finding::missing(page, "the page"));
        }
    }
    for (path, text) in tree.files() {
        let page = PAGES.iter().find(|(page, _)| *page == path);
        let (limit, advice) = match (page, path.rsplit_once('.')) {
            (Some((_, limit)), _) => (*limit, "move details to docs/"),
            (None, Some((_, "rs"))) => (RUST, "split it"),
            (None, Some((_, "wgsl"))) => (SHADER, "split it, or move shared functions to wgsl/lib"),
            _ => continue,
        };
        let lines = text.lines().count();
        if lines > limit {
            let text = format!("{lines} lines, more than {limit}; {advice}");
            findings.push(Finding::new(What::Length, path, limit + 1, text).sized(lines));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn each_kind_of_file_has_its_limit() {
        let (short, long) = ("\n".repeat(150), "\n".repeat(151));
        let (fits, exceeds) = ("\n".repeat(400), "\n".repeat(401));
        let found = check(&tree(&[
            ("candle-webgpu/src/a.rs", &fits),
            ("tests/b.rs", &exceeds),
            ("candle-webgpu/wgsl/a.wgsl", &short),
            ("candle-webgpu/wgsl/b.wgsl", &long),
            ("README.md", &long),
            ("docs/README.md", &long),
        ]));
        let found: Vec<_> = found.iter().map(|f| (f.path.as_str(), f.size)).collect();
        let wanted = [
            ("ARCHITECTURE.md", None),
            ("README.md", Some(151)),
            ("candle-webgpu/wgsl/b.wgsl", Some(151)),
            ("tests/b.rs", Some(401)),
        ];
        assert_eq!(found, wanted);
    }
}
