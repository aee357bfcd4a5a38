//! Checks that only one file submits and only one reads the environment, and that candle-webgpu does not mention Candle, nor the
//! backend in candle-core wgpu.

use super::code::Code;
use super::{Finding, Tree, What, SRC};

const SUBMIT: &str = "candle-webgpu/src/executor/submit.rs";
const ENV: &str = "candle-webgpu/src/device/env.rs";
const CORE: &str = "candle-core/src";
const BACKEND: &str = "candle-core/src/webgpu_backend";

pub fn submit(tree: &Tree) -> Vec<Finding> {
    let advice = "hand the work to executor/submit.rs";
    only(tree, SUBMIT, What::Submit, "submits", advice, |code| {
        let calls = code.calls.iter().filter(|(_, call)| call == ".submit");
        let paths = paths(code, |from, name| from == "Queue" && name == "submit");
        calls.map(|(line, _)| *line).chain(paths).collect()
    })
}

pub fn env(tree: &Tree) -> Vec<Finding> {
    let advice = "let device/env.rs read it, and pass the value";
    only(
        tree,
        ENV,
        What::Env,
        "reads the environment",
        advice,
        |code| {
            let calls = code.calls.iter().filter(|(_, call)| call == "option_env!");
            let reads = ["var", "var_os", "vars", "vars_os"];
            let paths = paths(code, |from, name| from == "env" && reads.contains(&name));
            calls.map(|(line, _)| *line).chain(paths).collect()
        },
    )
}

/// An error for each use outside `place`, or one for `place` if it has no use.
fn only(
    tree: &Tree,
    place: &str,
    what: What,
    does: &str,
    advice: &str,
    lines: impl Fn(&Code) -> Vec<usize>,
) -> Vec<Finding> {
    let files = [tree.shipped(SRC), tree.shipped(CORE)].concat();
    let mut findings = Vec::new();
    match files.iter().find(|(path, _)| *path == place) {
        None => findings.push(Finding::missing(place, &format!("the file that {does}"))),
        Some((_, code)) if lines(code).is_empty() => {
            let text = format!("nothing here {does}; correct the check if that has moved");
            findings.push(Finding::new(What::Missing, place, 1, text));
        }
        Some(_) => {}
    }
    for (path, code) in files.iter().filter(|(path, _)| *path != place) {
        for line in lines(code) {
            let text = format!("{does}, which only {place} may; {advice}");
            findings.push(Finding::new(what, *path, line, text));
        }
    }
    findings
}

/// Lines of paths in which two consecutive names fit.
fn paths<'a>(
    code: &'a Code,
    fit: impl Fn(&str, &str) -> bool + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let named = code.mentions.iter().filter(move |mention| {
        let mut pairs = mention.segments.windows(2);
        pairs.any(|pair| fit(&pair[0], &pair[1]))
    });
    named.map(|mention| mention.line)
}

pub fn mentions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, word, text) in [
        (
            SRC,
            "candle_core",
            "must not depend on Candle; move this to webgpu_backend",
        ),
        (
            BACKEND,
            "wgpu::",
            "must not call wgpu; add a method to candle_webgpu's Device",
        ),
    ] {
        let mut files = tree.below(folder, ".rs").peekable();
        if files.peek().is_none() {
            findings.push(Finding::missing(folder, "the source folder"));
        }
        for (path, source) in files {
            let lines = (1..).zip(source.lines());
            for (line, _) in lines.filter(|(_, line)| line.contains(word)) {
                let text = format!("`{word}` in a crate that {text}");
                findings.push(Finding::new(What::Mention, path, line, text));
            }
        }
    }
    for (path, code) in tree.shipped(SRC) {
        for line in paths(code, |_, name| name == "strong_count") {
            let text = "`strong_count` is racy; let the owner's Drop decide";
            findings.push(Finding::new(What::Mention, path, line, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn lines(found: &[Finding]) -> Vec<(&str, usize)> {
        found.iter().map(|f| (f.path.as_str(), f.line)).collect()
    }

    #[test]
    fn one_file_submits() {
        let call = "fn f() { queue.submit([]); }";
        assert!(submit(&tree(&[(SUBMIT, call)])).is_empty());
        let others = tree(&[
            (SUBMIT, "fn submit() {}"),
            (
                "candle-webgpu/src/a.rs",
                "fn f() {\n    wgpu::Queue::submit(q, []) }",
            ),
            (
                "candle-webgpu/src/b.rs",
                "use crate::executor::submit;\n#[cfg(test)] fn f() { q.submit() }",
            ),
            ("candle-core/src/c.rs", call),
        ]);
        let found = submit(&others);
        let wanted = [
            (SUBMIT, 1),
            ("candle-webgpu/src/a.rs", 2),
            ("candle-core/src/c.rs", 1),
        ];
        assert_eq!(lines(&found), wanted);
        assert_eq!(found[0].what, What::Missing);
    }

    #[test]
    fn one_file_reads_the_environment() {
        let found = tree(&[
            (ENV, "fn f() { std::env::var(V) }"),
            ("candle-webgpu/src/a.rs", "use std::env::{self, var_os};"),
            (
                "candle-webgpu/src/b.rs",
                "use std::env;\nfn f() { g!(env::var(V), env::temp_dir()) }",
            ),
            (
                "candle-webgpu/src/c.rs",
                "\n\nconst V: X = option_env!(\"V\");\nconst W: X = env!(\"W\");",
            ),
            ("candle-webgpu/src/tests.rs", "fn f() { std::env::var(V) }"),
            (
                "candle-core/src/webgpu_backend/d.rs",
                "fn f() { std::env::vars() }",
            ),
        ]);
        let wanted = [
            ("candle-webgpu/src/a.rs", 1),
            ("candle-webgpu/src/b.rs", 2),
            ("candle-webgpu/src/c.rs", 3),
            ("candle-core/src/webgpu_backend/d.rs", 1),
        ];
        assert_eq!(lines(&env(&found)), wanted);
    }

    #[test]
    fn crates_do_not_mention_each_other() {
        let found = tree(&[
            (
                "candle-webgpu/src/a.rs",
                "// As candle_core has it.\nfn f() { Arc::strong_count(&x) }",
            ),
            (
                "candle-core/src/webgpu_backend/b.rs",
                "use candle_webgpu::Device;\nuse wgpu::Queue;",
            ),
            ("candle-core/src/c.rs", "use wgpu::Queue;"),
        ]);
        let wanted = [
            ("candle-webgpu/src/a.rs", 1),
            ("candle-core/src/webgpu_backend/b.rs", 2),
            ("candle-webgpu/src/a.rs", 2),
        ];
        assert_eq!(lines(&mentions(&found)), wanted);
    }
}
