//! `--beside`: runs this program and others in turn, and compares them.

use anyhow::{ensure, Context, Result};
use candle_examples::progress;
use candle_examples::spread::Spread;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// A program and its arguments.
pub struct Program {
    /// As the user wrote it.
    pub name: String,
    words: Vec<OsString>,
}

impl Program {
    /// This program with its arguments, but for those of this mode.
    pub fn this() -> Result<Self> {
        let mut words = vec![std::env::current_exe()?.into_os_string()];
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy();
            let own = ["--beside", "--rounds"];
            match own.iter().find_map(|own| text.strip_prefix(own)) {
                // Its value is the next argument.
                Some("") => {
                    arguments.next();
                }
                Some(value) if value.starts_with('=') => {}
                _ if text == "--json" => {}
                _ => words.push(argument),
            }
        }
        words.push("--json".into());
        Ok(Self {
            name: "this".to_string(),
            words,
        })
    }

    /// Splits a command line as a shell does.
    pub fn parse(line: &str) -> Result<Self> {
        let words = shell_words::split(line).with_context(|| format!("`{line}`"))?;
        ensure!(!words.is_empty(), "--beside needs a program");
        Ok(Self {
            name: line.to_string(),
            words: words.into_iter().map(OsString::from).collect(),
        })
    }

    /// Runs it and returns its measurements.
    fn run(&self) -> Result<Vec<Row>> {
        let mut command = Command::new(&self.words[0]);
        let output = command
            .args(&self.words[1..])
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.name.clone())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = errors.lines().collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        ensure!(
            output.status.success(),
            "`{}` ended with {}:\n{}",
            self.name,
            output.status,
            last.join("\n")
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let rows: Vec<Row> = text.lines().filter_map(Row::parse).collect();
        ensure!(
            !rows.is_empty(),
            "`{}` printed no line of JSON of llama-bench; does it have --json (llama.cpp: -o jsonl)?",
            self.name
        );
        Ok(rows)
    }
}

/// What a measurement is of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Pass {
    test: String,
    batch: u64,
    context: u64,
    tokens: u64,
}

#[derive(Clone, PartialEq, Debug)]
struct Row {
    pass: Pass,
    tok_s: f64,
}

impl Row {
    /// A line of this program, or of llama.cpp's llama-bench.
    fn parse(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        if let Some(tok_s) = line["tok_s"].as_f64() {
            let pass = serde_json::from_value(line).ok()?;
            return Some(Self { pass, tok_s });
        }
        let count = |key: &str| line[key].as_u64();
        let (prompt, generated) = (count("n_prompt")?, count("n_gen")?);
        let (test, tokens) = match generated {
            0 => ("prefill", prompt),
            _ => ("decode", generated),
        };
        let rates = line["samples_ts"].as_array()?.iter();
        let pass = Pass {
            test: test.to_string(),
            batch: 1,
            context: count("n_depth").unwrap_or(0),
            tokens,
        };
        let tok_s = Spread::of(rates.filter_map(Value::as_f64))?.median;
        Some(Self { pass, tok_s })
    }
}

/// The speeds of one program in a pass, and its ratios: in each round, its speed relative to the first program's.
#[derive(Serialize)]
struct Line<'a> {
    program: &'a str,
    #[serde(flatten)]
    pass: &'a Pass,
    tok_s: Option<Spread>,
    ratio: Option<Spread>,
}

fn line<'a>(
    (program, pass): (&'a str, &'a Pass),
    first: &[Vec<Row>],
    other: &[Vec<Row>],
) -> Line<'a> {
    let of = |rows: &[Row]| {
        let row = rows.iter().find(|row| row.pass == *pass);
        row.map(|row| row.tok_s)
    };
    let rounds = first.iter().zip(other);
    Line {
        program,
        pass,
        tok_s: Spread::of(other.iter().filter_map(|rows| of(rows))),
        ratio: Spread::of(rounds.filter_map(|(a, b)| Some(of(b)? / of(a)?))),
    }
}

fn words(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or("-".to_string(), |Spread { median, min, max }| {
        format!("{median:.digits$} ({min:.digits$} .. {max:.digits$})")
    })
}

/// Runs all programs `rounds` times in turn, and prints the speed of each and its ratio to the first one's.
pub fn run(programs: &[Program], rounds: u32, as_json: bool) -> Result<()> {
    let mut runs: Vec<Vec<Vec<Row>>> = programs.iter().map(|_| Vec::new()).collect();
    let bar = progress::steps("", u64::from(rounds) * programs.len() as u64);
    for round in 0..rounds {
        // Backwards every second time, so that a machine that becomes slower favours none. First, since a COMMAND may be wrong.
        let mut order: Vec<usize> = (0..programs.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for at in order {
            bar.set_message(programs[at].name.clone());
            runs[at].push(programs[at].run()?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let first = &runs[0];
    let passes: Vec<&Pass> = first[0].iter().map(|row| &row.pass).collect();
    if !as_json {
        println!(
            "{:<8} {:>5} {:>7} {:>7}  tok/s: median (min .. max) of {rounds} rounds; ratio to the first program",
            "test", "batch", "context", "tokens"
        );
    }
    for pass in passes {
        for (program, other) in programs.iter().zip(&runs) {
            let line = line((&program.name, pass), first, other);
            if as_json {
                println!("{}", serde_json::to_string(&line)?);
                continue;
            }
            println!(
                "{:<8} {:>5} {:>7} {:>7}  {:<32} {:<24} {}",
                pass.test,
                pass.batch,
                pass.context,
                pass.tokens,
                words(line.tok_s, 1),
                words(line.ratio, 3),
                line.program
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_programs_are_read() {
        let ours = r#"{"test":"decode","shape":"tiny","batch":1,"context":128,"tokens":64,"ms":{"median":1.0},"tok_s":500.0}"#;
        let theirs = r#"{"build_commit":"0","n_prompt":0,"n_gen":64,"n_depth":128,"avg_ts":300.0,"samples_ts":[100.0,400.0,410.0]}"#;
        let (ours, theirs) = (Row::parse(ours), Row::parse(theirs));
        let (ours, theirs) = (ours.expect("a row"), theirs.expect("a row"));
        assert_eq!(ours.pass, theirs.pass);
        assert_eq!((ours.tok_s, theirs.tok_s), (500., 400.));
        assert_eq!(Row::parse("device: cpu"), None);

        let other = Row {
            tok_s: 1000.,
            ..ours.clone()
        };
        let line = line(
            ("other", &ours.pass),
            &[vec![ours.clone()], vec![ours.clone()]],
            &[vec![theirs], vec![other]],
        );
        let ratio = line.ratio.expect("two rounds");
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.8, 1.4, 2.));
    }

    #[test]
    fn a_command_is_split_like_a_shell_does() -> Result<()> {
        let program = Program::parse("./bench -m \"a b.gguf\" -o jsonl")?;
        assert_eq!(program.words, ["./bench", "-m", "a b.gguf", "-o", "jsonl"]);
        assert!(Program::parse(" ").is_err() && Program::parse("a \"b").is_err());
        Ok(())
    }
}
