//! Stores of up to four values, for rows of any length.

pub(crate) use crate::dtype::MATMUL_F32 as FLOATS;
use crate::error::Result;
use crate::shader::{Access, Specialization, Text};

/// `y_put(at, count, v)` stores the first `count` (1 to 4) values of v from element `at` on. With `Put`, `at` is a multiple of four
/// and `count` is 4. With `Set`, words inside the range are stored whole and those at its ends lane by lane, so that threads can
/// write neighbouring elements at the same time.
pub(crate) fn y_put(spec: &Specialization, operand: usize, text: &mut Text) -> Result<()> {
    put(spec, operand, "y", text)
}

/// [`y_put`] for an operand named `n`.
pub(crate) fn put(spec: &Specialization, operand: usize, n: &str, text: &mut Text) -> Result<()> {
    put_as(spec, operand, n, &format!("{n}_put"), text)
}

/// [`put`] as a function called `name`.
pub(crate) fn put_as(
    spec: &Specialization,
    operand: usize,
    n: &str,
    name: &str,
    text: &mut Text,
) -> Result<()> {
    let row = spec.info(operand);
    if spec.operands[operand].1 == Access::Put {
        text.line(format!(
            "fn {name}(at: u32, count: u32, v: vec4<f32>) {{ {n}_quad_put(at / 4u, v); }}"
        ));
        return Ok(());
    }
    text.ops(row.compute); // `y_add`, which every `Set` operand has, uses them.
    if row.lanes == 1 {
        text.line(format!(
            "fn {name}(at: u32, count: u32, v: vec4<f32>) {{
    {n}_set(at, v.x);
    if count > 1u {{ {n}_set(at + 1u, v.y); }}
    if count > 2u {{ {n}_set(at + 2u, v.z); }}
    if count > 3u {{ {n}_set(at + 3u, v.w); }}
}}"
        ));
        return Ok(());
    }
    let word = format!("{}_word", row.name);
    text.line(format!(
        "fn {n}_pair(at: u32, count: u32, v: vec2<f32>) {{
    if count > 1u && at % 2u == 0u {{
        atomicStore(&{n}[at / 2u], {word}(v.xyxy));
    }} else {{
        if count > 0u {{ {n}_set(at, v.x); }}
        if count > 1u {{ {n}_set(at + 1u, v.y); }}
    }}
}}
fn {name}(at: u32, count: u32, v: vec4<f32>) {{
    if at % 2u == 0u {{
        {n}_pair(at, min(count, 2u), v.xy);
        {n}_pair(at + 2u, max(count, 2u) - 2u, v.zw);
    }} else {{
        {n}_set(at, v.x);
        {n}_pair(at + 1u, min(count, 3u) - 1u, v.yz);
        if count > 3u {{ {n}_set(at + 3u, v.w); }}
    }}
}}"
    ));
    Ok(())
}
