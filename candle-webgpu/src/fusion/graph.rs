//! Recorded ops as a graph: who reads and who writes which value. What a rule may do is decided here and nowhere else.

use smallvec::{smallvec, SmallVec};

use crate::fusion::Set;
use crate::memory::buffer::Value;
use crate::recorder::op::{boxed, Op, Ops};
use crate::shader::Specialization;
use rustc_hash::FxHashMap;

/// Reads and writes of a value by recorded ops, as positions in the graph; an op that binds it twice is named twice.
#[derive(Default)]
struct Uses {
    reads: SmallVec<[usize; 4]>,
    writes: SmallVec<[usize; 2]>,
}

type Place = SmallVec<[Box<Op>; 1]>;

/// What is recorded, in order, while rules rewrite it. Ops keep their positions; an op that replaces others stands at the place
/// of the last of them.
pub(crate) struct Graph {
    places: Vec<Place>,
    uses: FxHashMap<usize, Uses>,
    due: usize,
    /// The rules that are on.
    pub rules: Set,
    /// The number of the newest ops' batch.
    batch: u64,
    /// What was replaced.
    dead: Ops,
}

/// Whether an op writes into its operand `i`.
pub(crate) fn writes(spec: &Specialization, i: usize) -> bool {
    spec.binding(i).is_none_or(|b| b.write && !b.read_only)
}

impl Graph {
    /// The first `due` ops are about to be encoded. The others are there to be looked at, and to be taken into rewritings that begin
    /// before them. What tensors held when `batch` ended, they hold.
    pub fn new(ops: Ops, due: usize, batch: u64) -> Self {
        let mut graph = Graph {
            uses: FxHashMap::with_capacity_and_hasher(2 * ops.len(), Default::default()),
            places: ops.into_iter().map(|op| smallvec![op]).collect(),
            due,
            rules: Set::NONE,
            batch,
            dead: Ops::new(),
        };
        for at in 0..graph.places.len() {
            graph.note(at);
        }
        graph
    }

    /// What is due, what stays recorded, and what was replaced; that has let go of its values.
    pub fn into_ops(mut self) -> [Ops; 3] {
        let later = self.places.split_off(self.due.min(self.places.len()));
        let ops = |places: Vec<Place>| places.into_iter().flatten().collect();
        [ops(self.places), ops(later), self.dead]
    }

    /// Fewer ops are about to be encoded.
    pub fn set_due(&mut self, due: usize) {
        self.due = due;
    }

    /// Places where a rewriting may begin.
    pub fn due(&self) -> std::ops::Range<usize> {
        0..self.due
    }

    pub fn all(&self) -> std::ops::Range<usize> {
        0..self.places.len()
    }

    /// The op at a place, if it is the only one there.
    pub fn op(&self, at: usize) -> Option<&Op> {
        match self.places.get(at)?.as_slice() {
            [op] => Some(op),
            _ => None,
        }
    }

    fn note(&mut self, at: usize) {
        for op in &self.places[at] {
            for (i, (value, _)) in op.operands.iter().enumerate() {
                let uses = self.uses.entry(value.key()).or_default();
                match writes(&op.spec, i) {
                    true => uses.writes.push(at),
                    false => uses.reads.push(at),
                }
            }
        }
    }

    fn forget(&mut self, at: usize) {
        for mut op in std::mem::take(&mut self.places[at]) {
            for (value, _) in &op.operands {
                if let Some(uses) = self.uses.get_mut(&value.key()) {
                    uses.reads.retain(|place| *place != at);
                    uses.writes.retain(|place| *place != at);
                }
            }
            op.operands.retain(|(value, _)| value.retire());
            self.dead.push(op);
        }
    }

    /// The one op that makes a value, if none but recorded ops hold it and nothing was in it before them. When all that
    /// read it do without it, it need not exist.
    pub fn maker(&self, value: &Value) -> Option<usize> {
        self.writer(value).filter(|_| self.is_private(value))
    }

    /// Whether none but recorded ops hold a value.
    pub fn is_private(&self, value: &Value) -> bool {
        value.was_let_go(self.batch)
    }

    /// What an op writes into.
    pub fn written<'a>(&self, op: &'a Op) -> impl Iterator<Item = &'a Value> {
        let operands = op.operands.iter().enumerate();
        operands
            .filter(|(i, _)| writes(&op.spec, *i))
            .map(|(_, (value, _))| value)
    }

    /// The one op that writes what a value has, though others may hold it.
    pub fn writer(&self, value: &Value) -> Option<usize> {
        let uses = self.uses.get(&value.key())?;
        match uses.writes[..] {
            [at] if !value.is_begun() => Some(at),
            _ => None,
        }
    }

    /// The maker of what the op at `reader` binds from its first byte on, if nothing but that op reads it.
    pub fn sole(&self, bound: Option<&(Value, u64)>, reader: usize) -> Option<usize> {
        let (value, start) = bound?;
        let only = self.readers(value).iter().all(|at| *at == reader);
        self.maker(value)
            .filter(|at| only && *start == 0 && *at < reader)
    }

    /// Where a value is read.
    pub fn readers(&self, value: &Value) -> &[usize] {
        self.uses
            .get(&value.key())
            .map_or(&[], |uses| uses.reads.as_slice())
    }

    /// Whether the ops at `members` can run at the place `at` instead: between there and where each of them stands, nothing but
    /// members writes what it reads or writes, or reads what it writes.
    pub fn can_move(&self, members: &[usize], at: usize) -> bool {
        members.iter().all(|&member| {
            let between = |place: &usize| {
                (member.min(at)..=member.max(at)).contains(place) && !members.contains(place)
            };
            self.places[member].iter().all(|op| {
                op.operands.iter().enumerate().all(|(i, (value, _))| {
                    self.uses.get(&value.key()).is_none_or(|uses| {
                        let read = writes(&op.spec, i) && uses.reads.iter().any(between);
                        !read && !uses.writes.iter().any(between)
                    })
                })
            })
        })
    }

    /// Puts `ops` at the place `at` instead of those at `members`.
    pub fn replace(&mut self, members: &[usize], at: usize, ops: impl IntoIterator<Item = Op>) {
        members.iter().for_each(|&member| self.forget(member));
        let dead = &mut self.dead;
        self.places[at] = ops.into_iter().map(|op| boxed(op, dead)).collect();
        self.note(at);
    }
}
