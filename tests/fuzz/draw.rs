//! Draws a graph: each op is tried on the CPU as it is drawn, so shapes, ranges and ids are valid.

use anyhow::{bail, Result};
use candle_core::{DType, Tensor};

use crate::bound::floats;
use crate::family::block::block;
use crate::graph::{fetched, on_cpu, Call, Expect, Graph, Node, Outcome, Source};
use crate::input::{Rng, ALL};
use crate::known;
use crate::op::{named, Memory, Row, OPS};
use crate::ops::Wants;

/// What is known of a node while a graph is drawn.
pub struct Fact {
    /// The CPU's value; the device's is about the same.
    pub value: Tensor,
    /// The node that owns the storage, as far as is known.
    root: usize,
    /// Later ops may use it.
    live: bool,
    open: bool,
    calm: bool,
    normal: bool,
}

pub struct Drawer {
    pub rng: Rng,
    pub graph: Graph,
    pub facts: Vec<Option<Fact>>,
    pub wants: Wants,
    /// The maximum number of elements of a new leaf.
    most: usize,
}

const SIZES: [usize; 14] = [1, 2, 2, 3, 4, 4, 5, 7, 8, 9, 16, 17, 33, 64];
const LONG: [usize; 6] = [65, 128, 257, 300, 1000, 1025];

/// A graph of 10 to 30 ops, occasionally of 60 to 120.
pub fn graph(seed: u64) -> Result<Graph> {
    let mut d = Drawer {
        rng: Rng::new(seed),
        graph: Graph::default(),
        facts: Vec::new(),
        wants: Wants::Any,
        most: 4096,
    };
    if d.chance(10) {
        d.most = 1 << 16;
    }
    // Long graphs fill several batches of the recorder.
    let ops = match d.chance(10) {
        true => d.between(60, 120),
        false => d.between(10, 30),
    };
    let favourite = d.one_of(&ALL);
    while d.ops() < ops {
        match d.chance(8) {
            true => {
                let dtype = d.one_of(&[DType::F32, DType::F16, DType::BF16]);
                block(&mut d, dtype);
            }
            false => d.op(favourite)?,
        }
    }
    for node in &mut d.graph.nodes {
        node.brief |= d.rng.below(2) == 0;
    }
    Ok(d.graph)
}

impl Drawer {
    pub fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// Whether this graph's tensors may be large.
    pub fn is_large(&self) -> bool {
        self.most > 4096
    }

    fn ops(&self) -> usize {
        let nodes = self.graph.nodes.iter();
        nodes.filter(|n| matches!(n.source, Source::Op(..))).count()
    }

    /// Both ends included.
    pub fn between(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.rng.below((hi - lo + 1) as u64) as usize
    }

    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.rng.below(list.len() as u64) as usize]
    }

    pub fn dims(&mut self, rank: usize) -> Vec<usize> {
        let empty = self.chance(2);
        let mut dims: Vec<usize> = Vec::new();
        for _ in 0..rank {
            let room = self.most / dims.iter().product::<usize>().max(1);
            let size = match self.is_large() && self.chance(30) {
                true => self.one_of(&LONG),
                false => self.one_of(&SIZES),
            };
            dims.push(size.min(room.max(1)));
        }
        if empty && rank > 0 {
            let at = self.between(0, rank - 1);
            dims[at] = 0;
        }
        dims
    }

    pub fn dims_of(&self, node: usize) -> Vec<usize> {
        let fact = self.facts[node].as_ref();
        fact.map(|f| f.value.dims().to_vec()).unwrap_or_default()
    }

    pub fn dtype_of(&self, node: usize) -> DType {
        let fact = self.facts[node].as_ref();
        fact.map_or(DType::F32, |f| f.value.dtype())
    }

    /// A node that the current op may use.
    pub fn find(&mut self, dtype: DType, fits: impl Fn(&[usize]) -> bool) -> Option<usize> {
        let wants = self.wants;
        let usable = |f: &Fact| match wants {
            Wants::Any => true,
            Wants::Normal => f.normal,
            Wants::Open => f.open,
            Wants::Calm => f.calm,
        };
        let all: Vec<usize> = (0..self.facts.len())
            .filter(|&n| {
                self.facts[n].as_ref().is_some_and(|f| {
                    f.live && f.value.dtype() == dtype && usable(f) && fits(f.value.dims())
                })
            })
            .collect();
        (!all.is_empty()).then(|| self.one_of(&all))
    }

    /// A node of any shape.
    pub fn any(&mut self, dtype: DType) -> Option<usize> {
        let rank = self.one_of(&[0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5]);
        let dims = self.dims(rank);
        self.some(dtype, |_| true, dims)
    }

    /// A node whose dims fit, or else one with `dims`.
    pub fn some(
        &mut self,
        dtype: DType,
        fits: impl Fn(&[usize]) -> bool,
        dims: Vec<usize>,
    ) -> Option<usize> {
        if self.chance(80) {
            if let Some(node) = self.find(dtype, fits) {
                return Some(node);
            }
        }
        self.of(dtype, &dims)
    }

    /// A node with these dims: an existing one, one cast or reshaped, or a new leaf.
    pub fn of(&mut self, dtype: DType, dims: &[usize]) -> Option<usize> {
        let count: usize = dims.iter().product();
        if self.chance(75) {
            if let Some(node) = self.find(dtype, |d| d == dims) {
                return Some(node);
            }
        }
        if self.chance(40) {
            if let Some(node) = self.find(dtype, |d| d.iter().product::<usize>() == count) {
                return self.call("reshape", vec![node], dims.to_vec());
            }
        }
        if self.chance(40) {
            let from = self.one_of(&ALL);
            if let Some(node) = self.find(from, |d| d == dims) {
                let row = named("to_dtype")?;
                let cast = Call {
                    to: dtype,
                    ..call(vec![node], vec![])
                };
                if let Ok(Some(node)) = self.push(row, cast) {
                    // A node that is calm as an f32 may not be as a u8.
                    if self.find(dtype, |_| true).is_some() {
                        return Some(node);
                    }
                }
            }
        }
        self.viewed(dtype, dims)
    }

    /// A node that owns its storage, so an in-place op may write it.
    pub fn owned(&mut self, dtype: DType, fits: impl Fn(&[usize]) -> bool) -> Option<usize> {
        let node = self.find(dtype, fits);
        let own = |n: &usize| self.facts[*n].as_ref().is_some_and(|f| f.root == *n);
        match node.filter(own) {
            Some(node) => Some(node),
            None => {
                let node = node?;
                self.call("force_contiguous", vec![node], vec![])
            }
        }
    }

    pub fn shares(&self, a: usize, b: usize) -> bool {
        let root = |n: usize| self.facts[n].as_ref().map(|f| f.root);
        root(a) == root(b)
    }

    /// An op whose only parameters are sizes.
    pub fn call(&mut self, name: &str, args: Vec<usize>, u: Vec<usize>) -> Option<usize> {
        self.push(named(name)?, call(args, u)).ok()?
    }

    /// One op of the table.
    fn op(&mut self, favourite: DType) -> Result<()> {
        let row = &OPS[self.rng.below(OPS.len() as u64) as usize];
        let odd = row.memory != Memory::InPlace && self.chance(2);
        let dtype = match () {
            _ if odd => self.one_of(&ALL),
            _ if row.dtypes.contains(&favourite) && self.chance(40) => favourite,
            _ => self.one_of(row.dtypes),
        };
        self.wants = row.wants;
        let Some(mut drawn) = (row.draw)(self, dtype) else {
            return Ok(());
        };
        if !row.dtypes.contains(&dtype) {
            return self.bad(row, drawn);
        }
        // A bad in-place call could write before it fails, and Candle deadlocks if the ids share the storage that is
        // written (0.11.1).
        if row.memory != Memory::InPlace && self.chance(6) {
            self.spoil(&mut drawn);
            return self.bad(row, drawn);
        }
        self.push(row, drawn).map(|_| ())
    }

    /// Replaces an operand or a size.
    fn spoil(&mut self, call: &mut Call) {
        let live: Vec<usize> = (0..self.facts.len())
            .filter(|&n| self.facts[n].as_ref().is_some_and(|f| f.live))
            .collect();
        let (at, other) = (self.between(0, call.args.len() - 1), self.one_of(&live));
        match call.u.len() {
            n if n > 0 && self.chance(50) => {
                let at = self.between(0, n - 1);
                call.u[at] = self.between(0, 9);
            }
            _ => call.args[at] = other,
        }
    }

    fn values(&self, call: &Call) -> Option<Vec<Tensor>> {
        let value = |&n: &usize| self.facts[n].as_ref().map(|f| f.value.clone());
        call.args.iter().map(value).collect()
    }

    /// Adds a call if the CPU refuses it. If the CPU accepts it after all, its values may be outside the range of the
    /// bounds.
    fn bad(&mut self, row: &'static Row, call: Call) -> Result<()> {
        let Some(x) = self.values(&call) else {
            return Ok(());
        };
        let expect = match on_cpu(row, &call, &x)? {
            Some(Outcome::Error(_)) if known::device_accepts_more(row, &call, &x).is_none() => {
                Expect::Error
            }
            Some(Outcome::Panic(e)) => Expect::Panic(e),
            _ => return Ok(()),
        };
        self.add(Source::Op(row, call), expect, None, None);
        Ok(())
    }

    pub fn is_calm(&self, node: usize) -> bool {
        self.facts[node].as_ref().is_some_and(|f| f.calm)
    }

    /// Adds the op if the CPU accepts it; an unknown panic of the CPU is an error.
    pub fn push(&mut self, row: &'static Row, call: Call) -> Result<Option<usize>> {
        let Some(x) = self.values(&call) else {
            return Ok(None);
        };
        let value = match on_cpu(row, &call, &x)? {
            None => return Ok(None),
            Some(Outcome::Value(t)) => t,
            Some(Outcome::Error(_)) => {
                self.add(Source::Op(row, call), Expect::Error, None, None);
                return Ok(None);
            }
            Some(Outcome::Panic(e)) if known::cpu_panics(&e).is_some() => return Ok(None),
            Some(Outcome::Panic(e)) => {
                let dims: Vec<_> = x.iter().map(|t| (t.dtype(), t.dims())).collect();
                bail!(
                    "the CPU panics: {e}\n{} of {dims:?} with {call:?}",
                    row.name
                )
            }
        };
        if value.elem_count() > 4 * self.most {
            return Ok(None);
        }
        let first = call.args[0];
        let root = match row.memory {
            Memory::New => None,
            Memory::View | Memory::InPlace => self.facts[first].as_ref().map(|f| f.root),
        };
        let node = self.add(Source::Op(row, call), Expect::Value, Some(value), root);
        if row.memory == Memory::InPlace {
            for (n, fact) in self.facts.iter_mut().enumerate().take(node) {
                if let Some(fact) = fact.as_mut().filter(|f| Some(f.root) == root) {
                    fact.live = false;
                    self.graph.nodes[n].overwritten = true;
                }
            }
        }
        Ok(Some(node))
    }

    pub fn add(
        &mut self,
        source: Source,
        expect: Expect,
        value: Option<Tensor>,
        root: Option<usize>,
    ) -> usize {
        let at = self.graph.nodes.len();
        self.graph.nodes.push(Node {
            source,
            expect,
            brief: false,
            near: None,
            overwritten: false,
        });
        self.facts.push(value.map(|t| {
            // In its own memory, like the operands on the device.
            let value = fetched(&t).unwrap_or(t);
            let values = floats(&value).unwrap_or_default();
            let tiny = f64::from(f32::MIN_POSITIVE);
            let normal = values
                .iter()
                .all(|&v| v == 0. || v.is_nan() || v.abs() >= tiny);
            let small = |v: &f64| v.abs() <= 16.;
            let open = normal && values.iter().all(|v| small(v) || !v.is_finite());
            let calm = normal && values.iter().all(small);
            Fact {
                value,
                root: root.unwrap_or(at),
                live: true,
                open,
                calm,
                normal,
            }
        }));
        at
    }
}

/// A call without scalars.
pub fn call(args: Vec<usize>, u: Vec<usize>) -> Call {
    Call {
        args,
        u,
        f: Vec::new(),
        to: DType::F32,
    }
}
