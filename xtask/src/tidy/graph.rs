//! The import graph of a source folder, and its cycles.

use std::collections::BTreeSet;

use super::code::Code;
use super::modules::{join, Modules};

/// Nodes are files other than tests. An edge points to the file that defines the target of a `use` or a path. A parent
/// module that refers to its children by name alone, as the tables of rules and kernels do, does not import them.
pub struct Graph {
    /// Relative to the source folder.
    pub files: Vec<String>,
    /// Each `use`, and each path from `crate`, `self` or `super`.
    pub imports: Vec<Import>,
    pub edges: BTreeSet<(usize, usize)>,
}

pub struct Import {
    pub from: usize,
    pub to: usize,
    pub line: usize,
    pub path: String,
}

impl Graph {
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a Code)>) -> Self {
        let modules = Modules::new(files);
        let mut graph = Graph {
            files: Vec::new(),
            imports: Vec::new(),
            edges: BTreeSet::new(),
        };
        let mut number = vec![None; modules.files.len()];
        for (index, file) in modules.files.iter().enumerate().filter(|(_, f)| !f.test) {
            number[index] = Some(graph.files.len());
            graph.files.push(file.name.to_owned());
        }
        for (index, file) in modules.files.iter().enumerate() {
            let Some(from) = number[index] else { continue };
            for mention in &file.code.mentions {
                let module = join(&file.module, &mention.within);
                if !mention.is_anchored() && modules.has_child(&module, &mention.segments) {
                    continue;
                }
                let targets = modules.resolve(&module, &mention.segments);
                let targets = targets.iter().filter_map(|&target| number[target]);
                for to in targets.filter(|to| *to != from) {
                    graph.edges.insert((from, to));
                    if mention.is_anchored() {
                        let (line, path) = (mention.line, mention.segments.join("::"));
                        let import = Import {
                            from,
                            to,
                            line,
                            path,
                        };
                        graph.imports.push(import);
                    }
                }
            }
        }
        graph
    }

    /// The largest set of files that all reach each other; empty if there is no cycle.
    pub fn largest_cycle(&self) -> Vec<usize> {
        let reached: Vec<BTreeSet<usize>> =
            (0..self.files.len()).map(|from| self.reach(from)).collect();
        let cycle = |a: usize| -> Vec<usize> {
            let all = reached[a].iter().copied();
            all.filter(|&b| reached[b].contains(&a)).collect()
        };
        let cycles = (0..self.files.len()).map(cycle);
        cycles.max_by_key(Vec::len).unwrap_or_default()
    }

    fn reach(&self, from: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for &(_, to) in self.edges.range((at, 0)..(at + 1, 0)) {
                if found.insert(to) {
                    open.push(to);
                }
            }
        }
        found
    }
}
