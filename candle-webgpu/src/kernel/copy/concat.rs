//! Copies that do not meet, as one kernel: the parts of a concatenation, keys and values. Recorded by a rule.

use crate::dtype::{DType, BITS};
use crate::error::Result;
use crate::kernel::WORKGROUP;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

/// The most parts.
pub(crate) const PARTS: usize = 4;
/// Dims of a part.
pub(crate) const RANK: usize = 4;

macro_rules! parts {
    ($($binding:expr),+) => {
        Kernel {
            name: "concat",
            source: wgsl!("kernel/copy/concat.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
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

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Part {
    pub first: u32,
    pub n: u32,
    pub offsets: [u32; 2],
    pub dims: [u32; RANK],
    /// Of what is read, and of what is written.
    pub strides: [[u32; RANK]; 2],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub parts: [Part; PARTS],
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let bindings = spec.kernel.bindings;
    text.bindings(spec, 0);
    let mut cases = String::new();
    let destinations = destinations(spec.kernel).unwrap_or_default();
    for (part, to) in destinations.iter().enumerate() {
        let (from, to) = (bindings[part].name, ["y", "z"][*to]);
        cases += &format!("        case {part}u: {{ {to}[place] = {from}[source]; }}\n");
    }
    text.line(format!(
        "fn move_quad(part: u32, source: u32, place: u32) {{
    switch part {{
{cases}        default: {{}}
    }}
}}"
    ));
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let forms = FORMS
        .iter()
        .flat_map(|form| BITS.map(|dtype| spec(form.to, dtype)));
    forms.flatten().collect()
}
