//! Copies that do not meet, as one kernel: the parts of a concatenation, keys and values. Recorded by a rule.

use crate::dtype::{DType, BITS};
use crate::error::Result;
use crate::kernel::WORKGROUP;
use crate::shader::{params, read, write, Access, Kernel, Specialization, Text};

/// The most parts.
pub(crate) const PARTS: usize = 4;
/// Dims of a part.
pub(crate) const RANK: usize = 4;

macro_rules! parts {
    ($($binding:expr),+) => {
        Kernel {
            name: "concat",
            source: wgsl!("kernel/copy/concat.wgsl"),
            params: Params::LAYOUT,
            bindings: &[$($binding),+],
            workgroup: WORKGROUP,
            shared: |_| 0,
            features: wgpu::Features::empty(),
            slots,
        }
    };
}

/// A way to share parts among destinations.
struct Form {
    /// The destination of each part.
    to: &'static [usize],
    kernel: Kernel,
}

static FORMS: [Form; 3] = [
    Form {
        to: &[0, 0],
        kernel: parts!(read("a"), read("b"), write("y")),
    },
    Form {
        to: &[0, 1],
        kernel: parts!(read("a"), read("b"), write("y"), write("z")),
    },
    Form {
        to: &[0, 0, 1, 1],
        kernel: parts!(
            read("a"),
            read("b"),
            read("c"),
            read("d"),
            write("y"),
            write("z")
        ),
    },
];

/// The specialisation for parts that go to these destinations, numbered as they come.
pub(crate) fn spec(to: &[usize], dtype: DType) -> Option<Specialization> {
    let form = FORMS.iter().find(|form| form.to == to)?;
    let operands = vec![(dtype, Access::Quads); form.kernel.bindings.len()];
    Some(Specialization::new(&form.kernel, "", &operands))
}

/// The destination of each part, of an op that is one of these.
pub(crate) fn destinations(kernel: &'static Kernel) -> Option<&'static [usize]> {
    let form = FORMS
        .iter()
        .find(|form| std::ptr::eq(&form.kernel, kernel))?;
    Some(form.to)
}

params! {
    #[derive(Default)]
    pub(crate) struct Part {
        pub first: u32,
        pub n: u32,
        pub offsets: [u32; 2],
        pub dims: [u32; RANK],
        /// Of what is read, and of what is written.
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
    text.line("fn move_quad(part: u32, source: u32, place: u32) {");
    text.line("    switch part {");
    let destinations = destinations(spec.kernel).unwrap_or_default();
    for (part, (to, from)) in destinations.iter().zip(spec.bindings()).enumerate() {
        let (from, to) = (from.name, ["y", "z"][*to]);
        text.line(format!(
            "        case {part}u: {{ {to}[place] = {from}[source]; }}"
        ));
    }
    text.line("        default: {}");
    text.line("    }");
    text.line("}");
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let forms = FORMS
        .iter()
        .flat_map(|form| BITS.map(|dtype| spec(form.to, dtype)));
    forms.flatten().collect()
}
