//! Drops the declarations that a shader does not need. The linker adds whole files of functions, of which a kernel calls some: without the
//! others, a text has half its length on average, and compilers need time for each function, called or not.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The entry point, bindings, overrides and directives, and all that these need, in the order of the text. Of a name with two
/// different declarations both stay, so that the compiler refuses them.
pub(crate) fn reachable(text: &str) -> String {
    let all = declarations(text);
    let mut by_name: FxHashMap<&str, SmallVec<[usize; 1]>> = FxHashMap::default();
    for (i, text) in all.iter().enumerate() {
        if let Some(name) = name(text) {
            let same = by_name.entry(name).or_default();
            if same.iter().all(|at| all[*at].trim() != text.trim()) {
                same.push(i);
            }
        }
    }
    let mut needed = vec![false; all.len()];
    let is_root = |i: &usize| {
        let mut words = words(all[*i]);
        name(all[*i]).is_none()
            || words.any(|word| ["compute", "group", "override"].contains(&word))
    };
    let mut left: Vec<usize> = (0..all.len()).filter(is_root).collect();
    while let Some(i) = left.pop() {
        if !std::mem::replace(&mut needed[i], true) {
            left.extend(words(all[i]).filter_map(|word| by_name.get(word)).flatten());
        }
    }
    let kept = all.iter().zip(needed).filter(|(_, needed)| *needed);
    kept.map(|(text, _)| *text).collect()
}

/// The declarations and directives of a text, each with the comment before it.
fn declarations(text: &str) -> Vec<&str> {
    let (mut all, mut start, mut at, mut depth) = (Vec::new(), 0, 0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        let code = code(line).trim_end();
        depth += code.matches(['(', '{', '[']).count();
        depth -= code.matches([')', '}', ']']).count().min(depth);
        if depth == 0 && code.ends_with(['}', ';']) {
            all.push(&text[start..at]);
            start = at;
        }
    }
    all.push(&text[start..]);
    all
}

/// A line without its comment.
pub(crate) fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

const KINDS: [&str; 6] = ["fn", "struct", "alias", "const", "override", "var"];
/// What may stand between `var` and its name.
const SPACES: [&str; 5] = ["immediate", "private", "storage", "uniform", "workgroup"];
const ACCESS: [&str; 2] = ["read", "read_write"];

/// The name that a declaration declares; `None` for a directive.
fn name(declaration: &str) -> Option<&str> {
    let mut words = words(declaration);
    let kind = words.find(|word| KINDS.contains(word))?;
    words.find(|word| kind != "var" || !SPACES.contains(word) && !ACCESS.contains(word))
}

/// The words of a text without its comments.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text
        .lines()
        .flat_map(move |line| code(line).split(move |c| !is_part(c)));
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_entry_point_needs_is_kept() {
        let text = "enable f16;
// lost() is not here.
const LOST = 1u;
const KEPT: u32 = 2u;
struct Params {
    n: u32,
}
var<immediate> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
var<workgroup> variance: f32;
fn lost(
    a: u32,
) -> u32 {
    return LOST;
}
fn deep() -> u32 { return KEPT; }
// Calls deep.
fn kept() -> u32 {
    // lost
    return deep() + p.n;
}
override UNUSED: u32 = 1u;
@compute @workgroup_size(1)
fn main() {
    y[0] = f32(kept()) + variance;
}
";
        let kept = reachable(text);
        assert!(
            !kept.contains("LOST") && !kept.contains("fn lost"),
            "{kept}"
        );
        let others = text.lines().filter(|line| !line.contains("LOST"));
        for line in others.filter(|line| line.contains(['(', '=', ';']) && !line.contains("lost")) {
            assert!(kept.contains(line), "{line} in {kept}");
        }
        let twice = format!("{text}fn deep() -> u32 {{ return 3u; }}\n");
        assert_eq!(reachable(&twice).matches("fn deep").count(), 2);
    }
}
