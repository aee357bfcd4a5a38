//! `cargo xtask tidy`: checks the rules of ARCHITECTURE.md that need no compilation.

mod attributes;
mod code;
mod docs;
mod exceptions;
mod generated;
mod graph;
mod invariants;
mod layers;
mod lengths;
mod modules;
mod reader;
mod strings;
mod tokens;
mod tree;
mod words;

use std::path::PathBuf;

use anyhow::Result;

use exceptions::Config;
use tree::Tree;

pub const HELP: &str = "\
Check the layout of the repository: import order, file lengths, module docs, invariants of ARCHITECTURE.md.

  cargo xtask tidy                   run every check; compiles nothing
  cargo xtask tidy --list            list the checks
  cargo xtask tidy --graph -v        show figures of candle-webgpu's import graph, and the files of its largest cycle
  cargo xtask tidy --graph --src DIR         show the figures of another crate's source folder

An error reads `PATH:LINE: what is wrong; what to do [KIND]`, and the exit status is 1. Exceptions are in xtask/tidy.toml:

  [[exception]]
  path = \"candle-webgpu/src/op.rs\"
  what = \"length\"             # the KIND: cycle, doc, env, generated, layer, length, mention, string, submit or word
  limit = 450                 # only for cycle and length
  reason = \"one table\"

An exception that is not needed is an error, too.";

#[derive(clap::Args)]
pub struct Args {
    /// Print the checks and stop
    #[arg(long)]
    list: bool,
    /// Print the figures of the import graph and stop
    #[arg(long)]
    graph: bool,
    /// The source folder that --graph reads instead of candle-webgpu/src
    #[arg(long, value_name = "DIR", requires = "graph")]
    src: Option<PathBuf>,
    /// List the files of the largest import cycle
    #[arg(long, short)]
    verbose: bool,
}

const SRC: &str = "candle-webgpu/src";
const WGSL: &str = "candle-webgpu/wgsl";
const CONFIG: &str = "xtask/tidy.toml";

/// The kind of an error, which an exception names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Layer,
    Cycle,
    Length,
    Doc,
    Submit,
    String,
    Env,
    Mention,
    Word,
    Generated,
    /// Something that a check needs does not exist. There are no exceptions for this.
    #[serde(skip)]
    Missing,
    /// An error in an exception.
    #[serde(skip)]
    Exception,
}

struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Tree, &Config) -> Vec<Finding>,
}

const CHECKS: [Check; 9] = [
    Check {
        name: "layers",
        about: "imports in candle-webgpu/src follow the layers; no import cycle has more than 12 modules",
        run: |tree, _| layers::check(tree),
    },
    Check {
        name: "lengths",
        about: "at most 400 lines of Rust or 150 of WGSL a file; README.md and ARCHITECTURE.md at most 150",
        run: |tree, _| lengths::check(tree),
    },
    Check {
        name: "docs",
        about: "every Rust file begins with a `//!` line, every WGSL file with a `//` line",
        run: |tree, _| docs::check(tree),
    },
    Check {
        name: "submit",
        about: "only executor/submit.rs submits",
        run: |tree, _| invariants::submit(tree),
    },
    Check {
        name: "env",
        about: "only device/env.rs reads the environment",
        run: |tree, _| invariants::env(tree),
    },
    Check {
        name: "mentions",
        about: "no candle_core or strong_count in candle-webgpu/src, no wgpu:: in candle-core/src/webgpu_backend",
        run: |tree, _| invariants::mentions(tree),
    },
    Check {
        name: "strings",
        about: "only candle-webgpu/src/shader has strings with several lines of WGSL",
        run: |tree, _| strings::check(tree),
    },
    Check {
        name: "words",
        about: "candle-webgpu/src and wgsl do not use the former names that xtask/tidy.toml lists",
        run: words::check,
    },
    Check {
        name: "generated",
        about: "generated parts of Markdown files are between markers that name their command",
        run: |tree, _| generated::check(tree),
    },
];

#[derive(Debug)]
struct Finding {
    what: What,
    path: String,
    line: usize,
    /// What is wrong; what to do.
    text: String,
    /// The size that an exception's `limit` is compared with.
    size: Option<usize>,
}

impl Finding {
    fn new(what: What, path: impl Into<String>, line: usize, text: impl Into<String>) -> Self {
        Self {
            what,
            path: path.into(),
            line,
            text: text.into(),
            size: None,
        }
    }

    fn sized(self, size: usize) -> Self {
        let size = Some(size);
        Self { size, ..self }
    }

    /// The subject of a check is not in the tree, so the check would always pass.
    fn missing(path: &str, role: &str) -> Self {
        let text = format!("{role} is missing; add it, or correct the check if it has moved");
        Self::new(What::Missing, path, 1, text)
    }
}

pub fn main(args: Args) -> Result<bool> {
    if args.list {
        for check in &CHECKS {
            println!("{:<10} {}", check.name, check.about);
        }
        return Ok(true);
    }
    if let (true, Some(folder)) = (args.graph, &args.src) {
        let graph = Tree::folder(folder)?.graph("");
        println!("{}", layers::figures(&graph, args.verbose));
        return Ok(true);
    }
    let root = crate::root()?;
    let tree = Tree::repository(&root)?;
    println!("{}", layers::figures(&tree.graph(SRC), args.verbose));
    if args.graph {
        return Ok(true);
    }
    let config = Config::read(&root.join(CONFIG))?;
    let findings = CHECKS.iter().flat_map(|check| (check.run)(&tree, &config));
    let mut errors = config.judge(findings.collect());
    errors.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for error in &errors {
        let kind = format!("{:?}", error.what).to_lowercase();
        println!("{}:{}: {} [{kind}]", error.path, error.line, error.text);
    }
    println!("tidy: {} checks, {} errors", CHECKS.len(), errors.len());
    Ok(errors.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of these files.
    pub fn tree(files: &[(&str, &str)]) -> Tree {
        with(
            files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), *text))
                .collect(),
        )
    }

    pub fn with(files: Vec<(String, &str)>) -> Tree {
        let files = files
            .into_iter()
            .map(|(name, text)| (name, text.to_owned()));
        Tree::new(files.collect(), &[""]).expect("Rust")
    }
}
