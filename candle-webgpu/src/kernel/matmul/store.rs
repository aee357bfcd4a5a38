//! Stores of up to four values, for rows of any length.

pub(crate) use crate::dtype::MATMUL_F32 as FLOATS;
use crate::error::Result;
use crate::shader::{Access, Specialization, Text};

/// `{n}_put(at, count, v)`, for an operand named `n`, stores the first `count` (1 to 4) values of v from element `at` on. With `Put`,
/// `at` is a multiple of four and `count` is 4. With `Set`, words inside the range are stored whole and those at its ends lane by lane,
/// so that threads can write neighbouring elements at the same time.
pub(crate) fn put(spec: &Specialization, operand: usize, text: &mut Text) -> Result<()> {
    put_as(spec, operand, "put", text)
}

/// [`put`] as a function called `{n}_{verb}`.
pub(crate) fn put_as(
    spec: &Specialization,
    operand: usize,
    verb: &str,
    text: &mut Text,
) -> Result<()> {
    let row = spec.info(operand);
    let n = spec.binding(operand).map_or("", |binding| binding.name);
    let name = format!("{n}_{verb}");
    if spec.operands[operand].1 == Access::Put {
        text.line(format!(
            "fn {name}(at: u32, count: u32, v: vec4<f32>) {{ {n}_quad_put(at / 4u, v); }}"
        ));
        return Ok(());
    }
    text.ops(row.compute); // `y_add`, which every `Set` operand has, uses them.
    let word = format!("{}_word", row.name);
    let file = match row.lanes {
        1 => wgsl!("kernel/matmul/store_word.wgsl"),
        _ => wgsl!("kernel/matmul/store_half_words.wgsl"),
    };
    let names = [("out_put", &*name), ("f16_word", &*word)];
    text.part_for(file, ["out", n], &names);
    Ok(())
}

/// The function that stores to the results of projections, or of one matmul, each by its [`store`].
pub(crate) const PUT_OF: &str = "put_of(which: u32, at: u32, count: u32, v: vec4<f32>)";

pub(crate) fn store(y: &str) -> String {
    format!("{y}_put(at, count, v);")
}
