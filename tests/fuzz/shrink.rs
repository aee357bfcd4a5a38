//! Shrinks a failing graph: fewer ops, smaller dims, plainer layouts and values, as long as it fails in the same way.

use std::time::{Duration, Instant};

use anyhow::Result;
use candle_core::{Device, Tensor};

use crate::check::{check, Failure, Plan};
use crate::graph::{stepwise, Graph, Outcome, Source};
use crate::rules::Rules;

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Shrinker<'a> {
    device: &'a Device,
    plan: &'a Plan,
    rules: &'a mut Rules,
    until: Instant,
    pub graph: Graph,
    pub failure: Failure,
}

impl<'a> Shrinker<'a> {
    pub fn new(
        graph: Graph,
        plan: &'a Plan,
        failure: Failure,
        device: &'a Device,
        rules: &'a mut Rules,
    ) -> Self {
        let until = Instant::now() + PATIENCE;
        Shrinker {
            device,
            plan,
            rules,
            until,
            graph,
            failure,
        }
    }

    /// Keeps `smaller` if the same op still fails in the same way.
    fn attempt(&mut self, smaller: Graph) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let Ok(Some(failure)) = check(&smaller, self.plan, self.device, self.rules, |_, _| {})
        else {
            return false;
        };
        let alike = failure.kind == self.failure.kind
            && smaller.name(failure.node) == self.graph.name(self.failure.node);
        if alike {
            self.graph = smaller;
            self.failure = failure;
        }
        alike
    }

    pub fn shrink(&mut self) -> Result<()> {
        loop {
            let before = self.graph.nodes.len();
            self.drop_nodes();
            self.plain_values()?;
            if self.graph.nodes.len() == before {
                break;
            }
        }
        self.sizes();
        self.values();
        self.drop_nodes();
        Ok(())
    }

    /// Removes all nodes that the failing one does not need, at once or one by one.
    fn drop_nodes(&mut self) {
        let mut keep = vec![false; self.graph.nodes.len()];
        let mut todo = vec![self.failure.node];
        while let Some(n) = todo.pop() {
            keep[n] = true;
            todo.extend(self.graph.args(n));
        }
        if self.attempt(without(&self.graph, &keep)) {
            return;
        }
        for n in (0..self.graph.nodes.len()).rev() {
            let used = (0..self.graph.nodes.len()).any(|m| self.graph.args(m).contains(&n));
            if !used && n != self.failure.node {
                let keep: Vec<bool> = (0..self.graph.nodes.len()).map(|m| m != n).collect();
                self.attempt(without(&self.graph, &keep));
            }
        }
    }

    /// Replaces an op by a leaf with its values.
    fn plain_values(&mut self) -> Result<()> {
        for n in (0..self.graph.nodes.len()).rev() {
            if n == self.failure.node || matches!(self.graph.nodes[n].source, Source::Leaf(_)) {
                continue;
            }
            let steps = stepwise(&self.graph, self.device)?;
            if let Some(Outcome::Value(t)) = steps.get(n).map(|s| &s.got) {
                let mut plain = self.graph.clone();
                plain.nodes[n].source = Source::Leaf(t.clone());
                self.attempt(plain);
            }
        }
        Ok(())
    }

    /// Replaces a size by a smaller one wherever it occurs, in leaves and in parameters.
    fn sizes(&mut self) {
        loop {
            let mut sizes: Vec<usize> =
                self.leaves().flat_map(|(_, t)| t.dims().to_vec()).collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            sizes.dedup();
            let tries = sizes
                .iter()
                .flat_map(|&s| [(s, 1), (s, s / 2), (s, s.saturating_sub(1))]);
            let tries: Vec<(usize, usize)> = tries.filter(|(s, to)| to < s && *to > 0).collect();
            if !tries.into_iter().any(|(size, to)| self.resize(size, to)) {
                break;
            }
        }
    }

    fn leaves(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        let nodes = self.graph.nodes.iter().enumerate();
        nodes.filter_map(|(n, node)| match &node.source {
            Source::Leaf(t) => Some((n, t)),
            Source::Op(..) => None,
        })
    }

    fn resize(&mut self, size: usize, to: usize) -> bool {
        let mut smaller = self.graph.clone();
        for node in &mut smaller.nodes {
            match &mut node.source {
                Source::Leaf(t) => {
                    let Ok(cut) = cut(t, size, to) else {
                        return false;
                    };
                    *t = cut;
                }
                Source::Op(_, call) => {
                    for u in call.u.iter_mut().filter(|u| **u == size) {
                        *u = to;
                    }
                }
            }
        }
        // A parameter may equal the size by chance.
        let mut leaves_only = smaller.clone();
        for (node, old) in leaves_only.nodes.iter_mut().zip(&self.graph.nodes) {
            if matches!(node.source, Source::Op(..)) {
                node.source = old.source.clone();
            }
        }
        self.attempt(smaller) || self.attempt(leaves_only)
    }

    /// Replaces values by 1: all of a leaf, or smaller and smaller parts.
    fn values(&mut self) {
        let leaves: Vec<usize> = self.leaves().map(|(n, _)| n).collect();
        for n in leaves {
            let Source::Leaf(t) = &self.graph.nodes[n].source else {
                continue;
            };
            let count = t.elem_count();
            let mut size = count.max(1);
            while size >= 1 && count / size <= 64 {
                for start in (0..count).step_by(size) {
                    self.ones(n, start, size.min(count - start));
                }
                size /= 2;
            }
        }
    }

    fn ones(&mut self, n: usize, start: usize, len: usize) {
        let Source::Leaf(t) = &self.graph.nodes[n].source else {
            return;
        };
        let plain = || -> candle_core::Result<Tensor> {
            let flat = t.flatten_all()?.force_contiguous()?;
            flat.narrow(0, start, len)?.one_set()?;
            flat.reshape(t.dims())
        };
        if let Ok(plain) = plain() {
            let mut smaller = self.graph.clone();
            smaller.nodes[n].source = Source::Leaf(plain);
            self.attempt(smaller);
        }
    }
}

/// The first `to` of each dim of `size`.
fn cut(t: &Tensor, size: usize, to: usize) -> candle_core::Result<Tensor> {
    let mut out = t.clone();
    for dim in 0..t.rank() {
        if t.dims()[dim] == size {
            out = out.narrow(dim, 0, to)?;
        }
    }
    out.force_contiguous()
}

fn without(graph: &Graph, keep: &[bool]) -> Graph {
    let mut place = Vec::new();
    let mut out = Graph::default();
    for (node, &kept) in graph.nodes.iter().zip(keep) {
        place.push(out.nodes.len());
        if !kept {
            continue;
        }
        let mut node = node.clone();
        if let Source::Op(_, call) = &mut node.source {
            for a in &mut call.args {
                *a = place[*a];
            }
        }
        out.nodes.push(node);
    }
    out
}
