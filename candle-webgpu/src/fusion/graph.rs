//! Recorded ops as a graph: which op reads and which op writes each value. This module alone decides what a rule may do.

use std::sync::atomic::Ordering;

use smallvec::{smallvec, SmallVec};

use crate::memory::buffer::{Value, When};
use crate::memory::growable::Prefix;
use crate::recorder::op::{Op, Ops};
use crate::shader::{Kernel, Specialization};

/// Places of ops in a [`Graph`].
pub(crate) type Places = SmallVec<[usize; 16]>;

/// A replacement of ops by others.
pub(crate) struct Rewrite {
    /// The places of the ops that are replaced.
    members: Places,
    /// The ops that replace them, each with its place, which is that of a member.
    ops: SmallVec<[(usize, Box<Op>); 1]>,
    /// Values that these ops write as prefixes of growable ones.
    prefixes: SmallVec<[(Value, Prefix); 2]>,
}

impl Rewrite {
    /// Replaces `members` by `ops`, which all stand at the place `at`. See [`Graph::can_move`].
    pub fn new(members: &[usize], at: usize, ops: impl IntoIterator<Item = Box<Op>>) -> Self {
        Rewrite::to_places(members, ops.into_iter().map(|op| (at, op)).collect())
    }

    /// Replaces `members` by `ops`, each of which has its own place.
    pub fn to_places(members: &[usize], ops: SmallVec<[(usize, Box<Op>); 1]>) -> Self {
        Rewrite {
            members: Places::from_slice(members),
            ops,
            prefixes: SmallVec::new(),
        }
    }

    /// The new ops write these values as prefixes of growable ones.
    pub fn with_prefixes(mut self, prefixes: impl IntoIterator<Item = (Value, Prefix)>) -> Self {
        self.prefixes.extend(prefixes);
        self
    }

    /// Drops the op at a place. The ops that read one of `made`, which no tensor holds, read its counterpart in `kept` instead.
    pub fn drop_for(
        graph: &Graph,
        at: usize,
        [made, kept]: [&[(Value, u64)]; 2],
    ) -> Option<Rewrite> {
        if !made.iter().all(|(y, _)| graph.producer(y) == Some(at)) {
            return None;
        }
        let read = made.iter().flat_map(|(y, _)| graph.readers(y));
        let mut readers: Places = read.copied().collect();
        readers.sort_unstable();
        readers.dedup();
        let instead = |bound: &(Value, u64)| {
            let same = made.iter().position(|(y, _)| y.same(&bound.0));
            same.map_or(bound, |i| &kept[i]).clone()
        };
        let ops = readers.iter().map(|reader| {
            let op = graph.op(*reader)?;
            let operands = op.operands.iter().map(instead).collect();
            let op = Op::new(op.spec.clone(), operands, &op.slot(), op.grid);
            Some((*reader, op))
        });
        let ops = ops.collect::<Option<_>>()?;
        readers.push(at);
        Some(Rewrite::to_places(&readers, ops))
    }

    /// Whether a new op writes a value that it binds twice. WebGPU refuses such bindings, and no kernel expects them.
    pub fn aliases(&self) -> bool {
        let twice = |op: &Op, i: usize| {
            let mut others = op.operands.iter().enumerate().filter(|(j, _)| *j != i);
            op.spec.writes(i) && others.any(|(_, (other, _))| other.same(&op.operands[i].0))
        };
        let mut ops = self.ops.iter();
        ops.any(|(_, op)| (0..op.operands.len()).any(|i| twice(op, i)))
    }

    /// The kernels of the new ops.
    pub fn specs(&self) -> impl Iterator<Item = &Specialization> {
        self.ops.iter().map(|(_, op)| &op.spec)
    }
}

/// The ops that read and that write a value, by place. An op that binds the value twice is listed twice.
struct Uses {
    /// [`Value::key`].
    of: usize,
    reads: SmallVec<[usize; 4]>,
    writes: SmallVec<[usize; 2]>,
}

impl Uses {
    /// See [`Graph::writer`].
    fn writer(&self, value: &Value) -> Option<usize> {
        match self.writes[..] {
            [at] if !value.has_contents() => Some(at),
            _ => None,
        }
    }
}

/// The uses of all values. A value knows its place here, since rules look up each of them many times.
struct Index(Vec<Uses>);

impl Index {
    fn slot(&self, value: &Value) -> Option<usize> {
        let slot = value.slot().load(Ordering::Relaxed) as usize;
        (self.0.get(slot)?.of == value.key()).then_some(slot)
    }

    fn get(&self, value: &Value) -> Option<&Uses> {
        self.0.get(self.slot(value)?)
    }

    /// The uses of a value, which is added if it is new.
    fn entry(&mut self, value: &Value) -> &mut Uses {
        let slot = self.slot(value).unwrap_or_else(|| {
            value.slot().store(self.0.len() as u32, Ordering::Relaxed);
            self.0.push(Uses {
                of: value.key(),
                reads: SmallVec::new(),
                writes: SmallVec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[slot]
    }

    /// Adds the operands of the op at a place.
    fn add(&mut self, at: usize, op: &Op) {
        for (i, (value, _)) in op.operands.iter().enumerate() {
            let uses = self.entry(value);
            match op.spec.writes(i) {
                true => {
                    uses.writes.push(at);
                    value.forget_derived(When::Rewriting);
                }
                false => uses.reads.push(at),
            }
        }
    }
}

/// The ops at one place: one as recorded; none, one or two after a rewrite.
type Place = SmallVec<[Box<Op>; 1]>;

/// The recorded ops in order, while rules rewrite them. An op keeps its place; the places of replaced ops stay, empty or with their
/// replacement.
pub(crate) struct Graph {
    places: Vec<Place>,
    /// The kernel of each place that has one op: rules skip most places without reading the op, which another thread recorded.
    kernels: Vec<Option<&'static Kernel>>,
    uses: Index,
    due: usize,
    /// The number of the newest ops' batch.
    batch: u64,
    /// Values of replaced ops.
    spent: Vec<Value>,
}

impl Graph {
    /// The first `due` ops are about to be encoded. The others stay recorded; a rewrite that begins at a due op may take them. `batch`
    /// numbers the batch of the newest ops: a value that a tensor held at the end of that batch counts as held.
    pub fn new(ops: Ops, due: usize, batch: u64) -> Self {
        let mut graph = Graph {
            uses: Index(Vec::with_capacity(2 * ops.len())),
            kernels: ops.iter().map(|op| Some(op.spec.kernel)).collect(),
            places: ops.into_iter().map(|op| smallvec![op]).collect(),
            due,
            batch,
            spent: Vec::new(),
        };
        for (at, place) in graph.places.iter().enumerate() {
            for op in place {
                graph.uses.add(at, op);
            }
        }
        graph
    }

    /// The ops that are due, those that stay recorded, and the values of replaced ops.
    pub fn into_ops(mut self) -> (Ops, Ops, Vec<Value>) {
        let later = self.places.split_off(self.due.min(self.places.len()));
        let ops = |places: Vec<Place>| {
            let mut ops = Ops::with_capacity(places.len());
            for mut place in places {
                match place.len() {
                    1 => ops.extend(place.pop()),
                    _ => ops.extend(place),
                }
            }
            ops
        };
        (ops(self.places), ops(later), self.spent)
    }

    /// Lowers the number of ops that are due.
    pub fn set_due(&mut self, due: usize) {
        self.due = due;
    }

    /// The places of the ops that are due.
    pub fn due(&self) -> std::ops::Range<usize> {
        0..self.due
    }

    /// All places.
    pub fn all(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    /// The op at a place; `None` if there is none, or more than one.
    pub fn op(&self, at: usize) -> Option<&Op> {
        match self.places.get(at)?.as_slice() {
            [op] => Some(op),
            _ => None,
        }
    }

    /// The kernel of the op at a place; `None` if there is none, or more than one.
    pub fn kernel(&self, at: usize) -> Option<&'static Kernel> {
        *self.kernels.get(at)?
    }

    /// The values that an op writes.
    pub fn outputs<'a>(&self, op: &'a Op) -> impl Iterator<Item = &'a Value> {
        let operands = op.operands.iter().enumerate();
        operands
            .filter(|(i, _)| op.spec.writes(*i))
            .map(|(_, (value, _))| value)
    }

    /// The places that read a value.
    pub fn readers(&self, value: &Value) -> &[usize] {
        self.uses
            .get(value)
            .map_or(&[], |uses| uses.reads.as_slice())
    }

    /// Whether an op writes a value.
    pub fn is_written(&self, value: &Value) -> bool {
        let uses = self.uses.get(value);
        uses.is_some_and(|uses| !uses.writes.is_empty())
    }

    /// Whether only recorded ops hold a value: no tensor can read it.
    pub fn is_private(&self, value: &Value) -> bool {
        value.dropped_before_batch(self.batch)
    }

    /// The only op that writes a value, if the value had no contents before. Tensors may hold the value.
    pub fn writer(&self, value: &Value) -> Option<usize> {
        self.uses.get(value)?.writer(value)
    }

    /// The [`writer`](Graph::writer) of a private value. Once nothing reads the value, it need not be computed.
    pub fn producer(&self, value: &Value) -> Option<usize> {
        self.writer(value).filter(|_| self.is_private(value))
    }

    /// The producer of an operand of the op at `reader`, if no other op reads the value and it is bound from its first byte.
    pub fn sole_producer(&self, bound: Option<&(Value, u64)>, reader: usize) -> Option<usize> {
        let (value, start) = bound?;
        self.producer_for(value, &[reader]).filter(|_| *start == 0)
    }

    /// The producer of a value, if only the ops at `readers` read it.
    pub fn producer_for(&self, value: &Value, readers: &[usize]) -> Option<usize> {
        let last = readers.iter().max()?;
        let uses = self.uses.get(value)?;
        let at = uses.writer(value).filter(|at| at < last)?;
        let only = uses.reads.iter().all(|at| readers.contains(at));
        (only && self.is_private(value)).then_some(at)
    }

    /// The only op that reads what the op at a place writes as its operand `i`, if it is bound from its first byte.
    pub fn sole_reader(&self, at: usize, i: usize) -> Option<usize> {
        let written = self.op(at)?.operands.get(i);
        let reader = *self.readers(&written?.0).first()?;
        (self.sole_producer(written, reader) == Some(at)).then_some(reader)
    }

    /// What `op` made of a value in an earlier batch, which that value keeps until it is written. If there is nothing, the value keeps what
    /// `op` makes of it now, unless this batch writes the value.
    pub fn kept(&self, op: &Op, of: &(Value, u64), made: &Value) -> Option<Value> {
        if self.is_written(&of.0) {
            return None;
        }
        let mut key = op.spec.name().into_bytes();
        key.extend(of.1.to_le_bytes());
        key.extend(op.slot());
        let kept = of.0.derived(&key);
        if kept.is_none() {
            of.0.keep_derived(&key, made.handle(), When::Rewriting);
        }
        kept
    }

    /// Whether the ops at `members` can all run at the place `at` instead.
    pub fn can_move(&self, members: &[usize], at: usize) -> bool {
        members
            .iter()
            .all(|member| self.can_move_one(*member, at, members))
    }

    /// The first of `places` at which the ops at `members` can all run.
    pub fn place_for<const N: usize>(
        &self,
        members: &[usize],
        places: [usize; N],
    ) -> Option<usize> {
        places.into_iter().find(|at| self.can_move(members, *at))
    }

    /// Whether the op at `member` can run at the place `at` instead: of the ops between the two places, only `members` write what it
    /// reads or writes, or read what it writes.
    pub fn can_move_one(&self, member: usize, at: usize, members: &[usize]) -> bool {
        let between = |place: &usize| {
            (member.min(at)..=member.max(at)).contains(place) && !members.contains(place)
        };
        member == at
            || self.places[member].iter().all(|op| {
                op.operands.iter().enumerate().all(|(i, (value, _))| {
                    self.uses.get(value).is_none_or(|uses| {
                        let read = op.spec.writes(i) && uses.reads.iter().any(between);
                        !read && !uses.writes.iter().any(between)
                    })
                })
            })
    }

    /// Applies a rewrite.
    pub fn replace(&mut self, rewrite: Rewrite) {
        for &member in &rewrite.members {
            self.remove(member);
        }
        for (value, prefix) in rewrite.prefixes {
            prefix.claim();
            value.keep_prefix(prefix);
        }
        for (at, op) in rewrite.ops {
            self.uses.add(at, &op);
            self.kernels[at] = self.places[at].is_empty().then_some(op.spec.kernel);
            self.places[at].push(op);
        }
    }

    fn remove(&mut self, at: usize) {
        self.kernels[at] = None;
        while let Some(op) = self.places[at].pop() {
            for (i, (value, _)) in op.operands.iter().enumerate() {
                let uses = self.uses.entry(value);
                match op.spec.writes(i) {
                    true => uses.writes.retain(|place| *place != at),
                    false => uses.reads.retain(|place| *place != at),
                }
            }
            op.retire(&mut self.spent);
        }
    }
}
