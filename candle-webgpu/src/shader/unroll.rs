//! Unrolls the loops that a shader marks with `// unroll`: compilers keep cooperative matrices in registers only if no variable indexes
//! their array.

use crate::shader::reachable::code;

const MARK: &str = "// unroll";

/// The text with each marked loop replaced by its rounds, in which the loop variable is a constant. The loop starts a line and has the
/// form `for (var i = A; i < B; i++) { .. }` or `i += C`. A, B and C are sums, differences, products and quotients of numbers, constants
/// of the text, and variables of outer unrolled loops. The error names a loop that has another form.
pub(crate) fn unroll(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut known = Vec::new();
    rounds(text, text, &mut known, &mut out).map(|()| out)
}

/// Appends `part` of a text to `out`, unrolled. `known` are the variables of the loops around it.
fn rounds<'a>(
    text: &'a str,
    part: &'a str,
    known: &mut Vec<(&'a str, u32)>,
    out: &mut String,
) -> Result<(), String> {
    let mut rest = part;
    while let Some(mark) = rest.find(MARK) {
        let line = rest[..mark].rfind('\n').map_or(0, |at| at + 1);
        out.push_str(&rest[..line]);
        let wrong = || format!("cannot unroll `{}`", rest[line..mark].trim());
        let (header, body) = rest[line..].split_once('{').ok_or_else(wrong)?;
        let end = block_end(body).ok_or_else(wrong)?;
        let (body, behind) = (&body[..end], &body[end + 1..]);
        let (variable, [start, limit, step]) = parse(header).ok_or_else(wrong)?;
        let value = |expression: &str| evaluate(text, expression, known).ok_or_else(wrong);
        let [start, limit, step] = [value(start)?, value(limit)?, value(step)?];
        if step == 0 {
            return Err(wrong());
        }
        let body = without_mark(body);
        for i in (start..limit).step_by(step as usize) {
            out.push_str(&format!("{{ const {variable} = {i}u;"));
            known.push((variable, i));
            rounds(text, body, known, out)?;
            known.pop();
            out.push_str("}\n");
        }
        rest = without_mark(behind);
        rest = rest.strip_prefix('\n').unwrap_or(rest);
    }
    out.push_str(rest);
    Ok(())
}

/// What follows a mark, or all of a text that does not begin with one.
fn without_mark(text: &str) -> &str {
    let marked = text.strip_prefix(' ').and_then(|t| t.strip_prefix(MARK));
    marked.unwrap_or(text)
}

/// Where the block that `text` begins inside of ends.
fn block_end(text: &str) -> Option<usize> {
    let (mut depth, mut line_start) = (1, 0);
    for line in text.split_inclusive('\n') {
        for (at, c) in code(line).char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return Some(line_start + at),
                '}' => depth -= 1,
                _ => {}
            }
        }
        line_start += line.len();
    }
    None
}

/// The variable of a loop, its first value, its limit and its step.
fn parse(header: &str) -> Option<(&str, [&str; 3])> {
    let parts = header.trim().strip_prefix("for (var ")?.strip_suffix(')')?;
    let mut parts = parts.split("; ");
    let (variable, start) = parts.next()?.split_once(" = ")?;
    let limit = parts.next()?.strip_prefix(variable)?.strip_prefix(" < ")?;
    let step = match parts.next()?.strip_prefix(variable)? {
        "++" => "1u",
        step => step.strip_prefix(" += ")?,
    };
    Some((variable, [start, limit, step]))
}

/// The value of an expression of u32 numbers.
fn evaluate(text: &str, expression: &str, known: &[(&str, u32)]) -> Option<u32> {
    let mut words = Words(expression);
    let value = operation(text, &mut words, known, OPERATORS)?;
    words.next().is_none().then_some(value)
}

/// By precedence, the weakest first.
const OPERATORS: &[[&str; 2]] = &[["+", "-"], ["*", "/"]];

/// Operands joined by the first of `levels`, each joined by the others.
fn operation(
    text: &str,
    words: &mut Words<'_>,
    known: &[(&str, u32)],
    levels: &[[&str; 2]],
) -> Option<u32> {
    let Some((operators, stronger)) = levels.split_first() else {
        return factor(text, words, known);
    };
    let mut value = operation(text, words, known, stronger)?;
    while let Some(operator) = words.next_of(operators) {
        let right = operation(text, words, known, stronger)?;
        value = match operator {
            "+" => value.checked_add(right)?,
            "-" => value.checked_sub(right)?,
            "*" => value.checked_mul(right)?,
            _ => value.checked_div(right)?,
        };
    }
    Some(value)
}

fn factor(text: &str, words: &mut Words<'_>, known: &[(&str, u32)]) -> Option<u32> {
    let word = words.next()?;
    if word == "(" {
        let value = operation(text, words, known, OPERATORS)?;
        return words.next_of(&[")"]).map(|_| value);
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return word.trim_end_matches('u').parse().ok();
    }
    if let Some((_, value)) = known.iter().rev().find(|(name, _)| *name == word) {
        return Some(*value);
    }
    let declared = [format!("const {word} = "), format!("const {word}: u32 = ")];
    let declared = declared
        .iter()
        .find_map(|head| text.split_once(head.as_str()));
    evaluate(text, declared?.1.split(';').next()?, &[])
}

/// The words and operators of an expression.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// The next word, if it is one of `expected`.
    fn next_of(&mut self, expected: &[&str]) -> Option<&'a str> {
        let before = self.0;
        let word = self.next().filter(|word| expected.contains(word));
        if word.is_none() {
            self.0 = before;
        }
        word
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = match text.chars().next()? {
            first if is_part(first) => text.find(|c| !is_part(c)).unwrap_or(text.len()),
            first => first.len_utf8(),
        };
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_loops_become_blocks() {
        let text = "const ROWS = 2u;
fn f() {
    for (var r = 0u; r < ROWS; r++) { // unroll
        for (var c = r * 4u; c < (ROWS + 1u) * 4u - 4u; c += 4u) { x[c] = r; } // unroll
        for (var i = 0u; i < n; i++) { y(); }
    }
}
";
        let expected = "const ROWS = 2u;
fn f() {
{ const r = 0u;
{ const c = 0u; x[c] = r; }
{ const c = 4u; x[c] = r; }
        for (var i = 0u; i < n; i++) { y(); }
    }
{ const r = 1u;
{ const c = 4u; x[c] = r; }
        for (var i = 0u; i < n; i++) { y(); }
    }
}
";
        assert_eq!(unroll(text).as_deref(), Ok(expected));
    }

    #[test]
    fn loops_without_constant_bounds_are_errors() {
        for header in [
            "for (var i = 0u; i < n; i++)",
            "for (var i = 0u; i <= 4u; i++)",
            "for (var i = 0u; i < 4u; i += 0u)",
            "while true",
        ] {
            let text = format!("fn f() {{\n    {header} {{ x(); }} // unroll\n}}\n");
            let error = unroll(&text).expect_err(header);
            assert!(error.contains(header), "{error}");
        }
    }
}
