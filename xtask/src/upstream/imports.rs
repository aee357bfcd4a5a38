//! What follows from the files that later steps bring: no `mod` and `use` lines of them, no rows of tables that name them, and no `use` of
//! names that only hidden lines mention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

/// Where a file is: its folder's crate root, and its own modules' folder.
pub struct Place {
    /// The folder that `crate::` means, with a slash at its end.
    root: String,
    /// The folder of the files that `mod` lines name, with a slash at its end.
    children: String,
}

impl Place {
    pub fn of(path: &str) -> Self {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.trim_end_matches(".rs");
        let children = match stem {
            "mod" | "lib" | "main" => format!("{folder}/"),
            _ => format!("{folder}/{stem}/"),
        };
        let root = path.split_once("/src/").map(|(of, _)| format!("{of}/src/"));
        Self {
            root: root.unwrap_or_else(|| format!("{folder}/")),
            children,
        }
    }

    /// The files of the modules that a path may go through, outermost first.
    fn files(&self, path: &[&str]) -> Vec<String> {
        let (mut folder, mut rest) = match path.first() {
            Some(&"crate") => (self.root.clone(), &path[1..]),
            Some(&"self") => (self.children.clone(), &path[1..]),
            _ => (self.children.clone(), path),
        };
        while let Some((&"super", after)) = rest.split_first() {
            let above = folder.trim_end_matches('/').rsplit_once('/');
            folder = above.map_or(String::new(), |(above, _)| format!("{above}/"));
            rest = after;
        }
        let mut files = Vec::new();
        for name in rest {
            files.push(format!("{folder}{name}.rs"));
            files.push(format!("{folder}{name}/mod.rs"));
            folder.push_str(name);
            folder.push('/');
        }
        files
    }
}

/// `text`, which is `full` without what later steps bring, without `mod` and `use` of such files and without `use` of names that nothing
/// mentions any more. `later` tells whether a later step brings a file.
pub fn prune(text: &str, full: &str, place: &Place, later: impl Fn(&str) -> bool) -> String {
    let missing = |path: &[&str]| place.files(path).iter().any(|file| later(file));
    let text = without_modules(text, place, &missing, &later);
    let text = without_rows(&text, &missing);
    let (before, after) = (mentioned(full), mentioned(&text));
    let replaced = USE.replace_all(&text, |found: &regex::Captures<'_>| {
        let (head, tree) = (&found["head"], Tree::parse(&found["tree"]));
        let exported = head.contains("pub");
        let keep = |path: &[&str], name: &str| {
            let gone = before.contains(name) && !after.contains(name);
            !missing(path) && (exported || !gone)
        };
        match tree.pruned(&mut Vec::new(), &mut { keep }) {
            Some(pruned) if pruned == tree => found[0].to_owned(),
            Some(pruned) => format!("{head}{};\n", pruned.text()),
            None => String::new(),
        }
    });
    replaced.into_owned()
}

fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

static USE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?m)^(?<head>[ \t]*(?:#\[[^\n]*\]\n[ \t]*)*(?:pub(?:\([a-z]+\))? )?use )(?<tree>[^;]+);\n",
    )
});
static MODULE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);$"));
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r#"^\s*#\[.*path = "([^"]+)".*\]$"#));
static ROW: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^\s*(?:\("[^"]*", )?&?(?<path>(?:\w+::)+\w+)(?:\(\))?\)?,$"#));
static WORD: LazyLock<Regex> = LazyLock::new(|| regex(r"\w+"));

/// The text without `mod` lines of missing files, their attributes and comments, and without attributes that name missing files.
fn without_modules(
    text: &str,
    place: &Place,
    missing: &impl Fn(&[&str]) -> bool,
    later: &impl Fn(&str) -> bool,
) -> String {
    let mut out: Vec<&str> = Vec::new();
    let belongs = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("#[") || line.starts_with("//") && !line.starts_with("//!")
    };
    for line in text.lines() {
        if let Some(found) = PATH.captures(line) {
            if later(&format!("{}{}", place.children, &found[1])) {
                continue;
            }
        }
        match MODULE.captures(line) {
            Some(found) if missing(&["self", found.get(1).map_or("", |m| m.as_str())]) => {
                while out.last().is_some_and(belongs) {
                    out.pop();
                }
            }
            _ => out.push(line),
        }
    }
    out.iter().flat_map(|line| [line, "\n"]).collect()
}

/// The text without rows of tables, such as `conv::catalogue(),` and `("cats", &concat::RULE),`, that name missing modules.
fn without_rows(text: &str, missing: &impl Fn(&[&str]) -> bool) -> String {
    let mut imported = BTreeMap::new();
    for found in USE.captures_iter(text) {
        let keep = |path: &[&str], name: &str| {
            imported.insert(name.to_owned(), path.join("::"));
            true
        };
        let _ = Tree::parse(&found["tree"]).pruned(&mut Vec::new(), &mut { keep });
    }
    let stays = |line: &&str| {
        ROW.captures(line).is_none_or(|row| {
            let (first, rest) = row["path"].split_once("::").unwrap_or((&row["path"], ""));
            let first = imported.get(first).map_or(first, String::as_str);
            let path: Vec<&str> = first.split("::").chain(rest.split("::")).collect();
            !missing(&path)
        })
    };
    let lines = text.lines().filter(stays);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The words of a text outside `use` items and comments that an import may bring: none behind `::` or a dot.
fn mentioned(text: &str) -> BTreeSet<String> {
    let text = USE.replace_all(text, "");
    let mut all = BTreeSet::new();
    for line in text.lines() {
        let code = match line.trim_start().starts_with("//") {
            true => "",
            false => line.split(" // ").next().unwrap_or_default(),
        };
        let free = WORD.find_iter(code).filter(|word| {
            let before = &code[..word.start()];
            let field = before.ends_with('.') && !before.ends_with("..");
            !field && !before.ends_with("::")
        });
        all.extend(free.map(|word| word.as_str().to_owned()));
    }
    all
}

/// What a `use` names: a path, and what it selects below.
#[derive(Clone, PartialEq)]
struct Tree {
    path: String,
    below: Option<Vec<Tree>>,
}

impl Tree {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        let Some((path, rest)) = text.split_once('{') else {
            return Self {
                path: text.to_owned(),
                below: None,
            };
        };
        let inner = rest.trim_end().trim_end_matches('}');
        // The closing braces of inner groups may have been taken, too.
        let open = inner.matches('{').count() - inner.matches('}').count();
        let inner = format!("{inner}{}", "}".repeat(open));
        let (mut parts, mut depth) = (vec![String::new()], 0);
        for c in inner.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            match (c, depth) {
                (',', 0) => parts.push(String::new()),
                _ => parts.last_mut().expect("not empty").push(c),
            }
        }
        let parts = parts.iter().filter(|part| !part.trim().is_empty());
        Self {
            path: path.trim_end_matches("::").to_owned(),
            below: Some(parts.map(|part| Self::parse(part)).collect()),
        }
    }

    /// Without the leaves that `keep` refuses; it gets a leaf's path, and the name that it brings into scope.
    fn pruned<'a>(
        &'a self,
        above: &mut Vec<&'a str>,
        keep: &mut impl FnMut(&[&str], &str) -> bool,
    ) -> Option<Self> {
        let (path, alias) = match self.path.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.trim())),
            None => (self.path.as_str(), None),
        };
        let length = above.len();
        above.extend(path.split("::").map(str::trim));
        let kept = match &self.below {
            None => {
                let whole: Vec<&str> = above.clone();
                let own = whole.iter().rev().find(|part| **part != "self");
                let name = alias.or(own.copied()).unwrap_or_default();
                keep(&whole, name).then(|| self.clone())
            }
            Some(below) => {
                let below = below.iter().filter_map(|tree| tree.pruned(above, keep));
                let below: Vec<_> = below.collect();
                (!below.is_empty()).then(|| Self {
                    path: self.path.clone(),
                    below: Some(below),
                })
            }
        };
        above.truncate(length);
        kept
    }

    fn text(&self) -> String {
        match self.below.as_deref() {
            None => self.path.clone(),
            Some([one]) if one.path == "self" => self.path.clone(),
            Some([one]) => format!("{}::{}", self.path, one.text()),
            Some(below) => {
                let below: Vec<_> = below.iter().map(Self::text).collect();
                format!("{}::{{{}}}", self.path, below.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
use crate::{a::One, b};
use std::fmt::{self, Write as _};

/// Later.
#[cfg(unix)]
mod late;
pub(crate) mod kept;

pub use late::Thing;
pub use kept::{Also, Unused};

const ROWS: &[Row] = &[
    late::ROW,
    (\"x\", &kept::ROW),
];

fn one(x: One) {}
fn two(f: fmt::Result) { late::two(b::B) }
";

    #[test]
    fn later_files_and_names_go() {
        let place = Place::of("c/src/lib.rs");
        let none = |_: &str| false;
        assert_eq!(prune(TEXT, TEXT, &place, none), TEXT);
        let hidden = TEXT.replace("fn two(f: fmt::Result) { late::two(b::B) }\n", "");
        let pruned = prune(&hidden, TEXT, &place, |file| file == "c/src/late.rs");
        assert_eq!(
            pruned,
            "use crate::a::One;\nuse std::fmt::Write as _;\n\npub(crate) mod kept;\n\n\
             pub use kept::{Also, Unused};\n\n\
             const ROWS: &[Row] = &[\n    (\"x\", &kept::ROW),\n];\n\nfn one(x: One) {}\n"
        );
    }

    #[test]
    fn paths_lead_to_files() {
        let place = Place::of("c/src/kernel/copy/mod.rs");
        let last = |path: &[&str]| place.files(path).last().cloned();
        assert_eq!(last(&["crate", "op"]), Some("c/src/op/mod.rs".into()));
        assert_eq!(
            last(&["super", "split"]),
            Some("c/src/kernel/split/mod.rs".into())
        );
        assert_eq!(
            last(&["concat"]),
            Some("c/src/kernel/copy/concat/mod.rs".into())
        );
    }
}
