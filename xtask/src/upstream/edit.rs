//! Changes of texts: hiding what a later step brings, and replacing lines.

use anyhow::{ensure, Context, Result};
use regex::Regex;

use super::series::{Edit, Later};

/// The text without what `later` describes. An error if there is no such text.
pub fn hide(text: &str, later: &Later) -> Result<String> {
    if !later.text.is_empty() {
        let mut text = text.to_owned();
        for piece in &later.text {
            ensure!(text.contains(piece), "no line contains {piece:?}");
            text = text.replace(piece, "");
        }
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut keep = vec![true; lines.len()];
    let mut at = None;
    let mut drop = |range: std::ops::RangeInclusive<usize>| {
        at.get_or_insert(*range.start());
        keep[range].fill(false);
    };
    let find = |what: &str| {
        let at = lines.iter().position(|line| line.contains(what));
        at.with_context(|| format!("no line contains {what:?}"))
    };
    for what in &later.line {
        find(what)?;
        (0..lines.len())
            .filter(|i| lines[*i].contains(what))
            .for_each(|i| drop(i..=i));
    }
    for what in &later.item {
        drop(item(&lines, find(what)?));
    }
    if let Some([first, last]) = &later.lines {
        let from = find(first)?;
        let to = lines[from..].iter().position(|line| line.contains(last));
        let to = to.with_context(|| format!("no line contains {last:?} after {first:?}"))?;
        drop(from..=from + to);
    }
    let at = at.context("a rule names no lines")?;
    let mut out = String::with_capacity(text.len());
    for (i, line) in lines.iter().enumerate() {
        if i == at {
            out.push_str(&later.stub);
        }
        if keep[i] {
            out.push_str(line);
            out.push('\n');
        }
    }
    Ok(out)
}

/// The lines of an item: its comments and attributes, its text up to the line that closes it, and one blank line.
fn item(lines: &[&str], at: usize) -> std::ops::RangeInclusive<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let depth = indent(lines[at]);
    let belongs = |line: &str| {
        let text = line.trim_start();
        text.starts_with("//") && !text.starts_with("//!") || text.starts_with("#[")
    };
    let before = lines[..at]
        .iter()
        .rev()
        .take_while(|line| belongs(line) && indent(line) == depth);
    let from = at - before.count();
    let closes = |line: &&str| {
        let text = line.trim_end();
        indent(line) == depth
            && !text.is_empty()
            && (text.ends_with('}') || text.ends_with(';') || text.ends_with(','))
    };
    let to = lines[at..].iter().position(closes).map_or(at, |n| at + n);
    let blank = |i: usize| lines.get(i).is_none_or(|line| line.is_empty());
    // One of two blank lines goes, too; a blank line before a closing brace as well.
    let closing = |i: usize| lines.get(i).is_some_and(|line| line.trim() == "}");
    match () {
        () if blank(to + 1) && to + 1 < lines.len() => from..=to + 1,
        () if from > 0 && blank(from - 1) && closing(to + 1) => from - 1..=to,
        () => from..=to,
    }
}

/// The text with all matches replaced; an error if there is none.
pub fn replace(text: &str, edit: &Edit) -> Result<String> {
    let regex = Regex::new(&format!("(?m){}", edit.find)).context("not a regular expression")?;
    ensure!(regex.is_match(text), "nothing matches {:?}", edit.find);
    Ok(regex.replace_all(text, edit.with.as_str()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(text: &str) -> Later {
        toml::from_str(&format!("file = 'f'\nstep = 's'\n{text}")).expect("valid")
    }

    const TEXT: &str = "use a;\n\n/// One.\n#[inline]\nfn one() {\n    1\n}\n\nfn two() {}\n";

    #[test]
    fn hides_items_and_lines() {
        let hidden = |rule: &str| hide(TEXT, &later(rule)).expect("present");
        assert_eq!(hidden("item = 'fn one'"), "use a;\n\nfn two() {}\n");
        assert_eq!(
            hidden("line = 'use a'\nstub = \"use b;\\n\""),
            "use b;\n\n/// One.\n#[inline]\nfn one() {\n    1\n}\n\nfn two() {}\n"
        );
        assert_eq!(hidden("item = ['fn one', 'fn two']"), "use a;\n\n");
        assert!(hidden("text = ['wo', '    1']").ends_with("fn one() {\n\n}\n\nfn t() {}\n"));
        assert_eq!(
            hidden("lines = ['fn one', '}']"),
            "use a;\n\n/// One.\n#[inline]\n\nfn two() {}\n"
        );
        assert!(hide(TEXT, &later("item = 'fn three'")).is_err());
    }

    #[test]
    fn replaces_or_fails() {
        let edit = |find: &str| Edit {
            series: None,
            step: "s".into(),
            file: "f".into(),
            find: find.into(),
            with: "${1}b;".into(),
            repository: false,
        };
        assert!(replace(TEXT, &edit("^(use )a;$"))
            .expect("present")
            .starts_with("use b;\n"));
        assert!(replace(TEXT, &edit("^absent")).is_err());
    }
}
