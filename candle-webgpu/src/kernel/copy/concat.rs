//! Several independent copies as one kernel: the parts of a concatenation, or keys and values. A rule records it.

use crate::dtype::{DType, BITS};
use crate::error::Result;
use crate::kernel::switch;
use crate::shader::{params, read, write, Access, Kernel, Specialization, Text};

/// The most copies.
pub(crate) const PARTS: usize = 4;
/// Dims of a part.
pub(crate) const RANK: usize = 4;

pub static CONCAT: Kernel = Kernel {
    slots,
    ..kernel!("copy", "concat", Params::LAYOUT;)
};

/// The supported assignments of copies to destinations. They differ in the number of bindings.
const ASSIGNMENTS: [&[usize]; 3] = [&[0, 0], &[0, 1], &[0, 0, 1, 1]];

/// Bindings of the destinations.
const WRITES: [&str; 2] = ["y", "z"];

/// How many destinations an assignment has.
fn writes(to: &[usize]) -> usize {
    to.iter().max().map_or(0, |last| last + 1)
}

/// The specialization for copies to these destinations, numbered in order of appearance.
pub(crate) fn spec(to: &[usize], dtype: DType) -> Option<Specialization> {
    let to = ASSIGNMENTS.iter().find(|known| **known == to)?;
    let reads = ["a", "b", "c", "d"].into_iter().take(to.len()).map(read);
    let writes = WRITES.into_iter().take(writes(to)).map(write);
    let bind = |spec: Specialization, binding| spec.bind(binding, dtype, Access::Quads);
    let spec = Specialization::new(&CONCAT, "", &[]);
    Some(reads.chain(writes).fold(spec, bind))
}

/// The destination of each copy of a recorded op.
pub(crate) fn destinations(spec: &Specialization) -> Option<&'static [usize]> {
    let count = spec.operands.len();
    let mut known = ASSIGNMENTS.into_iter();
    known.find(|to| std::ptr::eq(spec.kernel, &CONCAT) && to.len() + writes(to) == count)
}

params! {
    #[derive(Default)]
    pub(crate) struct Part {
        pub first: u32,
        pub n: u32,
        pub offsets: [u32; 2],
        pub dims: [u32; RANK],
        /// Of the source and the destination.
        pub strides: [[u32; RANK]; 2],
    }
}

params! {
    pub(crate) struct Params {
        pub parts: [Part; PARTS],
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    text.bindings(spec, 0);
    let destinations = destinations(spec).unwrap_or_default();
    let parts = destinations.iter().zip(spec.bindings());
    let moves = parts.map(|(to, from)| format!("{}[place] = {}[source];", WRITES[*to], from.name));
    let head = "move_quad(part: u32, source: u32, place: u32)";
    text.unrolled(head, switch("part", moves, "{}"));
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let all = ASSIGNMENTS
        .iter()
        .flat_map(|to| BITS.map(|dtype| spec(to, dtype)));
    all.flatten().collect()
}
