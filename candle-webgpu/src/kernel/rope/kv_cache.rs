//! Queries and keys turned by the same angles, where keys go to their cache at once, and values to theirs: `rope_pair` with the copies
//! behind it. Recorded by a rule.

use crate::kernel::rope::{pair_catalogue, turns, PairParams, ROPE_QK};
use crate::kernel::WORKGROUP;
use crate::shader::{read, write, Access, Kernel, Specialization, Text};

/// The keys that are turned, the values beside them, and the keys and values before them.
pub(crate) const PARTS: usize = 4;

macro_rules! caches {
    ($slots:expr $(, $more:expr)*) => {
        Kernel {
            name: "rope_kv_cache",
            source: wgsl!("kernel/rope/rope_qk.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: &[
                read("x"), read("c"), read("s"), write("y"), read("u"), write("w"),
                read("a"), write("z") $(, $more)*
            ],
            workgroup: WORKGROUP,
            shared: |_| 0,
            features: wgpu::Features::empty(),
            slots: $slots,
        }
    };
}

/// Caches that are written into.
static INTO: Kernel = caches!(|spec, text| {
    slots(spec, text, &[("z", "a")]);
    Ok(())
});
/// Caches that are made of those before: `b` and `e` are the keys and values so far.
static GROWN: Kernel = caches!(
    |spec, text| {
        slots(spec, text, &[("z", "a"), ("w", "b"), ("z", "e")]);
        Ok(())
    },
    read("b"),
    read("e")
);

/// The twin of a specialisation of `rope_pair` with as many parts, if everything in it goes by quads.
pub(crate) fn spec(pair: &Specialization, parts: usize) -> Option<Specialization> {
    let mut operands = pair.operands.to_vec();
    let (dtype, access) = *operands.first()?;
    if access != Access::Quads {
        return None;
    }
    operands.extend([(dtype, Access::Quads), (dtype, Access::Put)]);
    let kernel = match parts {
        2 => &INTO,
        PARTS => {
            operands.extend([(dtype, Access::Quads); 2]);
            &GROWN
        }
        _ => return None,
    };
    Some(Specialization::new(kernel, pair.op, &operands))
}

/// Rows, counted in quads of elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Part {
    pub n: u32,
    pub run: u32,
    pub source: u32,
    pub place: u32,
    pub source_stride: u32,
    pub place_stride: u32,
    pub pad: [u32; 2],
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub pair: PairParams,
    pub parts: [Part; PARTS],
}

/// Where keys go, and the copies: what each writes and reads.
fn slots(spec: &Specialization, text: &mut Text, copies: &[(&str, &str)]) {
    turns(spec, text);
    text.bindings(spec, ROPE_QK.bindings.len());
    let place = |part: usize| {
        format!(
            "    let part = p.parts[{part}];
    let row = q / part.run;
    let col = q - row * part.run;"
        )
    };
    text.line(format!(
        "fn w_place(q: u32) -> u32 {{\n{}\n    return part.place + row * part.place_stride + col;\n}}",
        place(0)
    ));
    let mut copy = String::new();
    for (part, (to, from)) in (1..).zip(copies) {
        text.line(format!(
            "fn copy_{part}(q: u32) {{
{}
    {to}[part.place + row * part.place_stride + col] = {from}[part.source + row * part.source_stride + col];
}}",
            place(part)
        ));
        copy += &format!(
            "    if q < p.parts[{part}].n {{
        copy_{part}(q);
        return;
    }}
    q -= p.parts[{part}].n;
"
        );
    }
    text.line(format!("fn copy(i: u32) {{\n    var q = i;\n{copy}}}"));
}

pub fn catalogue() -> Vec<Specialization> {
    let pairs = pair_catalogue().into_iter();
    pairs
        .flat_map(|pair| [spec(&pair, 2), spec(&pair, PARTS)])
        .flatten()
        .collect()
}
