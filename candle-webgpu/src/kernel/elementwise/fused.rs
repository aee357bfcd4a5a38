//! chain: elementwise ops of which each but the last is read only by later ones, as one kernel. Recorded by a rule.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{Compute, DType, NUMBERS};
use crate::error::Result;
use crate::kernel::elementwise::unary;
use crate::kernel::elementwise::unary::apply;
use crate::kernel::{span_slot, WORKGROUP};
use crate::op::{short, Family, OPS, SHORT};
use crate::shader::steps::READ_NAMES;
use crate::shader::{read, write, Access, Arg, Kernel, Specialization, Step, Text};

/// The most operands; there is one output, and 8 storage buffers everywhere.
pub(crate) const MAX_READS: usize = READ_NAMES.len();
/// The most steps that have scalars, and the most operands that are not flat: what the parameters hold.
pub(crate) const MAX_SCALARS: usize = 4;
pub(crate) const MAX_VIEWS: usize = 4;
/// Dims of an operand that is not flat.
pub(crate) const VIEW_RANK: usize = 4;

/// Moves one of two, by a condition.
pub(crate) const WHERE_COND_OP: &str = "where_cond";

macro_rules! chain {
    ($($name:literal),+) => {
        Kernel {
            name: "fused_elementwise",
            source: wgsl!("kernel/elementwise/fused_elementwise.wgsl"),
            params: crate::shader::ParamsLayout::UNKNOWN,
            bindings: &[$(read($name),)+ write("y")],
            workgroup: WORKGROUP,
            shared: |_| 0,
            features: wgpu::Features::empty(),
            slots,
        }
    };
}

/// By the number of operands, from one on.
static CHAINS: [Kernel; MAX_READS] = [
    chain!("a"),
    chain!("a", "b"),
    chain!("a", "b", "c"),
    chain!("a", "b", "c", "d"),
    chain!("a", "b", "c", "d", "e"),
    chain!("a", "b", "c", "d", "e", "f"),
];

/// Whether a kernel is one of these.
pub(crate) fn is(kernel: &Kernel) -> bool {
    CHAINS.iter().any(|chain| std::ptr::eq(chain, kernel))
}

/// `reads` are flat, or `Quads` where rows of a view are whole quads, or `Words`.
pub(crate) fn spec(reads: &[(DType, Access)], steps: Arc<[Step]>, out: DType) -> Specialization {
    let kernel = &CHAINS[reads.len().clamp(1, MAX_READS) - 1];
    let mut spec = Specialization::new(kernel, "", reads);
    spec.operands.push((out, Access::Put));
    spec.steps = Some(steps);
    spec
}

/// The mirror of the shader's parameters.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub n: u32,
    pub offsets: [u32; MAX_READS],
    pub zero: u32,
    pub scalars: [[u32; 4]; MAX_SCALARS],
    /// Dims and strides.
    pub views: [[[u32; VIEW_RANK]; 2]; MAX_VIEWS],
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let mut views = 0;
    let reads = spec.operands.len() - 1;
    for ((binding, n), (_, access)) in (1..).zip(READ_NAMES).zip(&spec.operands[..reads]) {
        let up = n.to_uppercase();
        text.line(format!(
            "@group(0) @binding({binding}) var<storage, read> {n}: array<{up}>;"
        ));
        let at = format!("p.{n}_offset + walk(p.views[{views}], ");
        match access {
            Access::Flat => continue,
            Access::Quads => text.line(format!(
                "fn {n}_quad(q: u32) -> {up}L {{ return {n}_get4(({at}q * 4u)) / 4u); }}"
            )),
            _ => {
                let get = |k: u32| format!("{n}_get({at}min(q * 4u + {k}u, p.n - 1u)))");
                text.line(format!(
                    "fn {n}_quad(q: u32) -> {up}L {{ return {up}L({}, {}, {}, {}); }}",
                    get(0),
                    get(1),
                    get(2),
                    get(3)
                ));
            }
        }
        views += 1;
    }
    let binding = reads + 1;
    text.line(format!(
        "@group(0) @binding({binding}) var<storage, read_write> y: array<Y>;"
    ));
    span_slot(spec, text);
    body(spec, text)
}

/// Loads, steps and the store.
fn body(spec: &Specialization, text: &mut Text) -> Result<()> {
    let reads = &spec.operands[..spec.operands.len() - 1];
    let dtypes: SmallVec<[DType; MAX_READS]> = reads.iter().map(|(dtype, _)| *dtype).collect();
    let loads: Vec<_> = READ_NAMES[..reads.len()]
        .iter()
        .map(|n| format!("{n}_quad(q)"))
        .collect();
    steps(spec.steps.as_deref().unwrap_or(&[]), &dtypes, "p", text)?;
    text.line(format!(
        "fn load(q: u32) -> In {{ return In({}); }}",
        loads.join(", ")
    ));
    Ok(())
}

/// `struct In`, four values of each operand, and `steps(x: In)`, which gives four of the last step; one variable each. `p` has the
/// scalars and the zero.
pub(crate) fn steps(steps: &[Step], reads: &[DType], p: &str, text: &mut Text) -> Result<()> {
    let mut fields = SmallVec::<[String; MAX_READS]>::new();
    for (n, dtype) in READ_NAMES.iter().zip(reads) {
        fields.push(format!("{n}: {}", dtype.info().compute.lanes()));
    }
    text.line(format!("struct In {{ {} }}", fields.join(", ")));
    let Some(last) = steps.last() else {
        return Ok(());
    };
    let lanes = last.out.info().compute.lanes();
    text.line(format!("fn steps(x: In) -> {lanes} {{"));
    let mut scalars = 0;
    let mut files = SmallVec::<[DType; 8]>::new();
    for (i, step) in steps.iter().enumerate() {
        let mut args = SmallVec::<[String; 3]>::new();
        for (j, (arg, dtype)) in step.args.iter().enumerate() {
            files.push(*dtype);
            args.push(match arg {
                Arg::Read(at) => format!("x.{}", READ_NAMES[usize::from(*at)]),
                Arg::Step(at) => {
                    let from = steps[usize::from(*at)].out;
                    let seen = seen_as(&format!("s{at}"), from, *dtype)?;
                    if from != *dtype {
                        text.line(format!("    let s{i}_{j} = {seen};"));
                        format!("s{i}_{j}")
                    } else {
                        seen
                    }
                }
            });
        }
        let (from, out) = (step.args[0].1, step.out.info());
        if let ([_, arg], Compute::F32) = (&mut args[..], from.info().compute) {
            // NVIDIA's compiler (driver 580) takes x / x for 1 and x - x for 0, of what it sees to be the same.
            text.line(format!("    let s{i}_own = kept({arg});"));
            *arg = format!("s{i}_own");
        }
        let lane = |k: u32| -> Result<String> {
            let of = |arg: &String| format!("{arg}[{k}]");
            if step.op == WHERE_COND_OP {
                let holds = holds(from.info().compute, &of(&args[0]));
                return Ok(format!(
                    "select({}, {}, {holds})",
                    of(&args[2]),
                    of(&args[1])
                ));
            }
            if step.args.len() == 2 {
                return Ok(format!("{}({}, {})", step.op, of(&args[0]), of(&args[1])));
            }
            let scalar = |half: &str| format!("{p}.scalars[{scalars}].{half}");
            let halves = [&*scalar("xy"), &*scalar("zw")];
            apply(step.op, (from, step.out), &of(&args[0]), halves)
        };
        match step.op {
            "cast" => text.file(crate::op::CAST),
            WHERE_COND_OP => {}
            op if short(op, from).is_some() => text.file(SHORT),
            _ => text.ops(from.info().compute),
        }
        files.push(step.out);
        let lanes = out.compute.lanes();
        let made = format!(
            "{lanes}({}, {}, {}, {})",
            lane(0)?,
            lane(1)?,
            lane(2)?,
            lane(3)?
        );
        let name = out.name;
        text.line(match (out.dtype, out.compute) {
            (DType::F32, _) => format!("    let s{i} = kept({made});"),
            _ if out.dtype == out.compute.dtype() => format!("    let s{i} = {made};"),
            // As bits that a compiler does not see through: NVIDIA's (driver 580) drops the rounding otherwise.
            _ => format!(
                "    let s{i} = {name}_unpack({name}_pack({made}) ^ {}({p}.zero));",
                out.quad
            ),
        });
        scalars += usize::from(step.has_scalars());
    }
    for dtype in files {
        text.file(dtype.info().source);
    }
    text.line(format!("    return s{};\n}}", steps.len() - 1));
    Ok(())
}

/// Four values of one dtype as those of another whose elements have the same size: what a load would give of what was stored.
fn seen_as(v: &str, from: DType, to: DType) -> Result<String> {
    if from == to {
        return Ok(v.to_string());
    }
    let (from, to) = (from.info(), to.info());
    let packed = format!("{}_pack({v})", from.name);
    let quad = match from.quad == to.quad {
        true => packed,
        false => format!("bitcast<{}>({packed})", to.quad),
    };
    Ok(format!("{}_unpack({quad})", to.name))
}

fn holds(compute: Compute, c: &str) -> String {
    match compute {
        Compute::I64 => format!("({c}.x | {c}.y) != 0u"),
        Compute::I32 => format!("{c} != 0i"),
        _ => format!("{c} != 0u"),
    }
}

/// A sample of what rules link, in which every op, every conversion and every way of reading occurs.
pub fn catalogue() -> Vec<Specialization> {
    let step = |op, args: &[(Arg, DType)], out| Step {
        op,
        args: SmallVec::from_slice(args),
        out,
    };
    let (a, b, c) = (Arg::Read(0), Arg::Read(1), Arg::Read(2));
    let (flat, quads, words) = (Access::Flat, Access::Quads, Access::Words);
    let mut all = Vec::new();
    let taken = |dtype: &DType| *dtype != DType::F64;
    for row in OPS {
        for &e in row.dtypes.iter().filter(|e| taken(e)) {
            let out = row.output(e);
            let steps = match row.family {
                Family::Unary { .. } => vec![
                    step("badd", &[(a, e), (b, e)], e),
                    step(row.name, &[(Arg::Step(0), e)], out),
                    step("bmul", &[(Arg::Step(1), e), (b, e)], e),
                ],
                Family::Binary => vec![
                    step("bmul", &[(a, e), (a, e)], e),
                    step(row.name, &[(Arg::Step(0), e), (b, e)], out),
                ],
                Family::Reduce => continue,
            };
            let end = steps[steps.len() - 1].out;
            all.push(spec(&[(e, flat), (e, words)], steps.into(), end));
        }
    }
    let dtypes = || NUMBERS.into_iter().filter(taken);
    let pairs = dtypes().flat_map(|x| dtypes().map(move |y| (x, y)));
    for (x, y) in pairs.filter(|(x, y)| x != y) {
        let (bits, back) = (y.bits(), Arg::Step(1));
        let steps = [
            step(unary::CAST_OP, &[(a, x)], y),
            step(
                WHERE_COND_OP,
                &[(b, DType::U8), (Arg::Step(0), bits), (c, bits)],
                bits,
            ),
            step("uabs", &[(back, y)], y),
            step(unary::CAST_OP, &[(Arg::Step(2), y)], x),
        ];
        let reads = [(x, flat), (DType::U8, words), (bits, quads)];
        all.push(spec(&reads, steps.into(), x));
    }
    for condition in [DType::U32, DType::I16, DType::I32, DType::I64] {
        let steps = [step(
            WHERE_COND_OP,
            &[(a, condition), (b, DType::U16), (c, DType::U16)],
            DType::U16,
        )];
        let reads = [(condition, quads), (DType::U16, quads), (DType::U16, words)];
        all.push(spec(&reads, steps.into(), DType::U16));
    }
    all
}
