//! The format of patches: a header that says why, then hunks that only insert lines. A patch therefore contains no upstream
//! text, and the pin guarantees that its line numbers are right.

use anyhow::{bail, Context, Result};

/// Removes blob names, and the function text after `@@`, from the output of `git diff`.
pub fn body(diff: &str) -> String {
    let mut body = String::with_capacity(diff.len());
    for line in diff.lines() {
        if line.starts_with("index ") {
            continue;
        }
        let line = match line.strip_prefix("@@ ") {
            Some(hunk) => match hunk.find(" @@") {
                Some(end) => &line[..end + 6],
                None => line,
            },
            None => line,
        };
        body.push_str(line);
        body.push('\n');
    }
    body
}

/// Header and diff of a patch file.
pub fn split(patch: &str) -> Option<(&str, &str)> {
    let at = patch.find("\ndiff --git ")?;
    Some((patch[..at].trim(), &patch[at + 1..]))
}

/// The file name of a patch is the word before the colon of its subject.
pub fn file_name(header: &str) -> Result<String> {
    let subject = header.lines().next().unwrap_or_default();
    let name = subject.split_once(": ").map(|(name, _)| name);
    name.filter(|name| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !name.is_empty() && name.chars().all(plain)
    })
    .map(|name| format!("{name}.patch"))
    .with_context(|| {
        format!("the subject {subject:?} does not begin with a name and a colon, as in \"storage: ...\"")
    })
}

/// Counts the inserted lines; fails on anything that is not an insertion.
pub fn check(patch: &str) -> Result<usize> {
    let (_, body) = split(patch).context("it contains no diff")?;
    let mut count = 0;
    let mut due = 0;
    for (index, line) in body.lines().enumerate() {
        let problem = if due > 0 && line.starts_with('+') {
            due -= 1;
            count += 1;
            continue;
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            match inserted(hunk) {
                Some(n) if due == 0 => {
                    due = n;
                    continue;
                }
                _ => "a hunk that does more than insert",
            }
        } else if ["diff --git a/", "--- a/", "+++ b/"]
            .iter()
            .any(|start| line.starts_with(start))
        {
            continue;
        } else if line.starts_with('-') {
            "a removed line"
        } else if line.starts_with(' ') {
            "a context line"
        } else {
            "not part of an insertion (new files belong in src/)"
        };
        bail!("line {} of the diff is {problem}: {line}", index + 1);
    }
    if due > 0 {
        bail!("the last hunk lacks {due} lines");
    }
    Ok(count)
}

/// `12,0 +13,2 @@` inserts two lines.
fn inserted(hunk: &str) -> Option<usize> {
    let (old, new) = hunk.strip_suffix(" @@")?.split_once(" +")?;
    old.strip_suffix(",0")?.parse::<usize>().ok()?;
    match new.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => new.parse::<usize>().ok().map(|_| 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str =
        "one: a line\n\nWhy.\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -3,0 +4 @@\n+new\n";

    #[test]
    fn counts_insertions() {
        assert_eq!(check(PATCH).expect("valid"), 1);
        let (header, diff) = split(PATCH).expect("has a diff");
        assert_eq!(header, "one: a line\n\nWhy.");
        assert_eq!(file_name(header).expect("named"), "one.patch");
        let noisy = diff
            .replace("--- a", "index 1..2 100644\n--- a")
            .replace(" @@\n", " @@ fn f() {\n");
        assert_eq!(body(&noisy), diff);
    }

    #[test]
    fn refuses_context_and_removal() {
        for (from, to) in [
            ("@@ -3,0 +4 @@\n", "@@ -3,1 +4,2 @@\n old\n"),
            ("@@ -3,0 +4 @@\n", "@@ -3 +4 @@\n-old\n"),
            ("+new\n", "+new\n old\n"),
            ("+new\n", ""),
        ] {
            assert!(check(&PATCH.replace(from, to)).is_err(), "{to}");
        }
        assert!(file_name("no name here").is_err());
    }
}
