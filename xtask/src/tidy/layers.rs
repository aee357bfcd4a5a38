//! Checks that imports of candle-webgpu follow the layers, and that no import cycle is large.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::{Finding, Tree, What, SRC};

/// Lowest first. Layers of one row may import each other.
const LAYERS: [&[&str]; 10] = [
    &["util", "error"],
    &["dtype", "op"],
    &["memory"],
    &["shader"],
    &["recorder"],
    &["kernel"],
    &["fusion"],
    &["executor", "debug"],
    &["device"],
    &["lib"],
];

/// About the size of a kernel family.
const LARGEST_CIRCLE: usize = 12;

/// The folder or file directly below the source folder.
fn layer(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.trim_end_matches(".rs")
}

fn rank(file: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&layer(file)))
}

fn points_up(graph: &Graph, from: usize, to: usize) -> bool {
    match (rank(&graph.files[from]), rank(&graph.files[to])) {
        (Some(from), Some(to)) => from < to,
        _ => false,
    }
}

pub fn check(tree: &Tree) -> Vec<Finding> {
    let graph = tree.graph(SRC);
    let mut findings = Vec::new();
    for name in LAYERS.iter().copied().flatten() {
        if !graph.files.iter().any(|file| layer(file) == *name) {
            findings.push(Finding::missing(&format!("{SRC}/{name}"), "the layer"));
        }
    }
    for file in graph.files.iter().filter(|file| rank(file).is_none()) {
        let text = format!("{} is not a layer; move the file into one", layer(file));
        findings.push(Finding::new(What::Layer, format!("{SRC}/{file}"), 1, text));
    }
    let mut seen = BTreeSet::new();
    for import in &graph.imports {
        let (from, to) = (&graph.files[import.from], &graph.files[import.to]);
        if points_up(&graph, import.from, import.to) && seen.insert((from, import.line, to)) {
            let text = format!(
                "layer {} imports {} ({to}), which is higher; move that down, or pass a value or a trait",
                layer(from),
                import.path
            );
            let path = format!("{SRC}/{from}");
            findings.push(Finding::new(What::Layer, path, import.line, text));
        }
    }
    let cycle = graph.largest_cycle();
    if cycle.len() > LARGEST_CIRCLE {
        let text = format!(
            "{} modules import each other in a cycle, more than {LARGEST_CIRCLE}; -v lists them",
            cycle.len()
        );
        let finding = Finding::new(What::Cycle, SRC.to_owned(), 1, text);
        findings.push(finding.sized(cycle.len()));
    }
    findings
}

/// The figures of a graph; with `members`, also the files of the largest cycle.
pub fn figures(graph: &Graph, members: bool) -> String {
    let cycle = graph.largest_cycle();
    let known = graph.files.iter().filter(|file| rank(file).is_some());
    let without = graph.files.len() - known.count();
    let edges = &graph.edges;
    let up = edges
        .iter()
        .filter(|(from, to)| points_up(graph, *from, *to));
    let mut text = format!(
        "imports: {} modules, {} edges, largest cycle {} modules",
        graph.files.len(),
        edges.len(),
        cycle.len()
    );
    if without < graph.files.len() {
        text += &format!(", {} edges that point up", up.count());
    }
    if without > 0 {
        text += &format!(", {without} modules in no layer");
    }
    for &member in cycle.iter().filter(|_| members) {
        text += &format!("\n    {}", graph.files[member]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{tree, with};

    /// A tree that has every layer.
    fn layers(files: &[(&str, &str)]) -> Tree {
        let lacking = |name: &&&str| !files.iter().any(|(file, _)| layer(file) == **name);
        let names = LAYERS.iter().copied().flatten().filter(lacking);
        let mut all: Vec<(String, &str)> =
            names.map(|name| (format!("{SRC}/{name}.rs"), "")).collect();
        all.extend(
            files
                .iter()
                .map(|(name, text)| (format!("{SRC}/{name}"), *text)),
        );
        with(all)
    }

    fn lines(tree: &Tree) -> Vec<String> {
        let found = check(tree).into_iter();
        found.map(|f| format!("{}:{}", f.path, f.line)).collect()
    }

    #[test]
    fn imports_point_down() {
        let text = "use crate::{error, op::OPS};\nfn f() { crate::util::g() }";
        assert!(lines(&layers(&[("memory/pool.rs", text)])).is_empty());
        let beside = [
            ("debug/mod.rs", "use crate::executor;"),
            ("executor/mod.rs", "use crate::debug;"),
        ];
        assert!(lines(&layers(&beside)).is_empty());
        let up = layers(&[
            (
                "memory/pool.rs",
                "use crate::op;\nuse crate::kernel::{self};",
            ),
            ("memory/view.rs", "fn f() {\n    g!(crate::Device);\n}"),
            ("debug/check.rs", "use super::super::device::Device;"),
            ("device/mod.rs", "pub struct Device;"),
            ("lib.rs", "pub use device::Device;"),
            ("op.rs", "#[cfg(test)]\nmod tests { use crate::device; }"),
            ("op/testing.rs", "use crate::device;"),
        ]);
        assert_eq!(
            lines(&up),
            ["debug/check.rs:1", "memory/pool.rs:2", "memory/view.rs:2"]
                .map(|line| format!("{SRC}/{line}"))
        );
    }

    #[test]
    fn layers_are_known_and_all_there() {
        assert_eq!(
            lines(&layers(&[("misc.rs", "")])),
            [format!("{SRC}/misc.rs:1")]
        );
        assert_eq!(check(&tree(&[])).len(), 13);
    }

    #[test]
    fn cycles_are_found_through_exports() {
        // a -> c through a re-export in b; c -> a.
        let files = [
            ("a.rs", "use crate::b::C; pub struct A;"),
            ("b.rs", "pub use crate::c::*;"),
            ("c.rs", "use super::a::A; pub struct C;"),
            ("d.rs", "use crate::a::A;"),
        ];
        let all = files
            .map(|(name, text)| (format!("src/{name}"), text))
            .to_vec();
        let tree = with(all);
        let graph = tree.graph("src");
        let figures = figures(&graph, true);
        let wanted = "imports: 4 modules, 4 edges, largest cycle 2 modules, 4 modules in no layer\n    a.rs\n    c.rs";
        assert_eq!(figures, wanted);
    }

    #[test]
    fn a_large_cycle_is_an_error() {
        let ring: Vec<(String, String)> = (0..13)
            .map(|i| {
                (
                    format!("{SRC}/kernel/k{i}.rs"),
                    format!("use super::k{};", (i + 1) % 13),
                )
            })
            .collect();
        let found = check(&with(
            ring.iter().map(|(n, t)| (n.clone(), t.as_str())).collect(),
        ));
        let cycle = found.iter().find(|f| f.what == What::Cycle);
        assert_eq!(cycle.expect("found").size, Some(13));
    }
}
