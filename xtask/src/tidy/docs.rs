//! Checks that every file begins with a line that describes it.

use super::{Finding, Tree, What};

pub fn check(tree: &Tree) -> Vec<Finding> {
    let lacking = tree.files().filter_map(|(path, text)| {
        let (mark, advice) = match path.rsplit_once('.')?.1 {
            "rs" => ("//!", "begin with `//! What the module does.`"),
            "wgsl" => ("//", "begin with `// The formula, and what a thread owns.`"),
            _ => return None,
        };
        if says_something(text, mark) {
            return None;
        }
        let text = format!("the file has no description; {advice}");
        Some(Finding::new(What::Doc, path, 1, text))
    });
    lacking.collect()
}

/// Inner attributes may precede the doc line, and `enable` directives a shader's comment.
fn says_something(text: &str, mark: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let first = lines
        .into_iter()
        .find(|line| !line.is_empty() && !line.starts_with("#![") && !line.starts_with("enable "));
    let said = first.and_then(|line| line.strip_prefix(mark));
    said.is_some_and(|said| said.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn files_begin_with_a_doc_line() {
        let found = check(&tree(&[
            ("a/good.rs", "//! What it is.\n"),
            ("a/attribute.rs", "#![no_main]\n\n//! What it is.\n"),
            ("a/bad.rs", "use std::env;\n// Late.\n"),
            ("a/mute.rs", "//!\nfn f() {}\n"),
            ("a/plain.rs", "// A comment.\n"),
            ("a/good.wgsl", "// y = x\n"),
            ("a/bad.wgsl", "\nfn f() {}\n"),
            ("a/page.md", "text"),
        ]));
        let paths: Vec<&str> = found.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["a/bad.rs", "a/bad.wgsl", "a/mute.rs", "a/plain.rs"]);
    }
}
