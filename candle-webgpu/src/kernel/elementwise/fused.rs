//! Fused elementwise ops: an expression of several steps as one kernel, which a rule records.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::{Compute, DType, NUMBERS};
use crate::error::Result;
use crate::kernel::elementwise::unary::{self, apply};
use crate::kernel::span_slot;
use crate::op::{short, Family, OPS, SHORT};
use crate::shader::steps::READ_NAMES;
use crate::shader::{params, read, write, Access, Arg, Kernel, Specialization, Step, Text};

/// The most operands: every adapter binds 8 storage buffers, and one is the output.
pub(crate) const MAX_READS: usize = READ_NAMES.len();
/// The most steps with scalars, and the most operands that are not flat, for which the parameters have room.
pub(crate) const MAX_SCALARS: usize = 4;
pub(crate) const MAX_VIEWS: usize = 4;
/// Dims of an operand that is not flat.
pub(crate) const VIEW_RANK: usize = 4;

/// The step that selects one of two operands by a condition.
pub(crate) const WHERE_COND_OP: &str = "where_cond";

pub static FUSED_ELEMENTWISE: Kernel = Kernel {
    slots,
    ..kernel!("elementwise", "fused_elementwise", Params::LAYOUT;)
};

/// Operands of an expression, each `Flat`, or a view: `Quads` if its rows are whole quads, else `Words`.
pub(crate) type Reads<'a> = &'a [(DType, Access)];

/// A kernel for `steps`: [`FUSED_ELEMENTWISE`], or one with its bindings.
pub(crate) fn spec(
    kernel: &'static Kernel,
    reads: Reads<'_>,
    steps: Arc<[Step]>,
    out: DType,
) -> Specialization {
    let mut spec = Specialization::new(kernel, "", &[]);
    for (n, (dtype, access)) in READ_NAMES.iter().zip(reads) {
        spec = spec.bind(read(n), *dtype, *access);
    }
    spec = spec.bind(write("y"), out, Access::Put);
    spec.steps = Some(steps);
    spec
}

params! {
    pub(crate) struct Params {
        pub n: u32,
        pub a_offset: u32,
        pub b_offset: u32,
        pub c_offset: u32,
        pub d_offset: u32,
        pub e_offset: u32,
        pub f_offset: u32,
        pub zero: u32,
        pub scalars: [[u32; 4]; MAX_SCALARS],
        /// Dims and strides of each operand that is not flat.
        pub views: [[[u32; VIEW_RANK]; 2]; MAX_VIEWS],
    }
}

impl Params {
    pub fn offsets(&mut self) -> [&mut u32; MAX_READS] {
        [
            &mut self.a_offset,
            &mut self.b_offset,
            &mut self.c_offset,
            &mut self.d_offset,
            &mut self.e_offset,
            &mut self.f_offset,
        ]
    }
}

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    let (dtypes, load) = operands(spec, text);
    span_slot(spec, text);
    steps(spec.steps.as_deref().unwrap_or(&[]), &dtypes, "p", text)?;
    text.line(load);
    Ok(())
}

/// Writes the bindings. Returns the dtypes of the operands that are read, and `load(q) -> In`, which loads four values of each.
pub(crate) fn operands(
    spec: &Specialization,
    text: &mut Text,
) -> (SmallVec<[DType; MAX_READS]>, String) {
    let mut views = 0;
    let (mut dtypes, mut loads) = (SmallVec::<[DType; MAX_READS]>::new(), Vec::new());
    for ((i, binding), (dtype, access)) in (1..).zip(spec.bindings()).zip(&spec.operands) {
        text.binding(i, binding);
        if binding.write {
            break;
        }
        let (n, four) = (binding.name, format!("{}L", binding.name.to_uppercase()));
        dtypes.push(*dtype);
        loads.push(format!("{n}_quad(q)"));
        if *access == Access::Flat {
            continue;
        }
        text.file(wgsl!("kernel/elementwise/walk.wgsl"));
        let at = format!("p.{n}_offset + walk(p.views[{views}], ");
        let load = if *access == Access::Quads {
            format!("{n}_get4(({at}q * 4u)) / 4u)")
        } else {
            let get = |k| format!("{n}_get({at}min(q * 4u + {k}u, p.n - 1u)))");
            format!("{four}({})", [0, 1, 2, 3].map(get).join(", "))
        };
        text.line(format!(
            "fn {n}_quad(q: u32) -> {four} {{ return {load}; }}"
        ));
        views += 1;
    }
    let loads = loads.join(", ");
    let load = format!("fn load(q: u32) -> In {{ return In({loads}); }}");
    (dtypes, load)
}

/// Writes `struct In`, four values of each operand, and `steps(x: In)`, four results of the last step, with one variable per step. `p` is
/// the WGSL expression of what holds `scalars` and `zero`.
pub(crate) fn steps(steps: &[Step], reads: &[DType], p: &str, text: &mut Text) -> Result<()> {
    inputs(reads, text);
    match steps.len().checked_sub(1) {
        Some(last) => function("steps(x: In)", steps, Arg::Step(last as u8), p, text),
        None => Ok(()),
    }
}

/// Writes `struct In`.
pub(crate) fn inputs(reads: &[DType], text: &mut Text) {
    let mut fields = SmallVec::<[String; MAX_READS]>::new();
    for (n, dtype) in READ_NAMES.iter().zip(reads) {
        fields.push(format!("{n}: {}", dtype.info().compute.lanes()));
    }
    text.line(format!("struct In {{ {} }}", fields.join(", ")));
}

/// Writes the function `head`, which returns an operand in f32 or a step's result. A reduction's result is its argument `total`.
pub(crate) fn function(
    head: &str,
    steps: &[Step],
    result: Arg,
    p: &str,
    text: &mut Text,
) -> Result<()> {
    let (out, result) = match result {
        Arg::Read(at) => (DType::F32, format!("x.{}", READ_NAMES[usize::from(at)])),
        Arg::Step(at) => (steps[usize::from(at)].out, format!("s{at}")),
    };
    text.line(format!("fn {head} -> {} {{", out.info().compute.lanes()));
    let mut scalars = 0;
    let mut files = SmallVec::<[DType; 8]>::new();
    for (i, step) in steps.iter().enumerate() {
        if step.is_reduction() {
            text.line(format!("    let s{i} = total;"));
            continue;
        }
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
            // NVIDIA's compiler (driver 580) folds x / x to 1 and x - x to 0 if it sees the same value twice.
            text.line(format!("    let s{i}_own = kept({arg});"));
            *arg = format!("s{i}_own");
        }
        let lane = |k: u32| -> Result<String> {
            let of = |arg: &String| format!("{arg}[{k}]");
            if step.op == WHERE_COND_OP {
                let holds = holds(from.info().compute, &of(&args[0]));
                let [t, f] = [1, 2].map(|i| of(&args[i]));
                return Ok(format!("select({f}, {t}, {holds})"));
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
        let made = [lane(0)?, lane(1)?, lane(2)?, lane(3)?].join(", ");
        let made = format!("{lanes}({made})");
        text.line(match (out.dtype, out.compute) {
            (DType::F32, _) => format!("    let s{i} = kept({made});"),
            _ if out.dtype == out.compute.dtype() => format!("    let s{i} = {made};"),
            _ => format!(
                "    let s{i} = {};",
                out.rounded(&made, &format!("{p}.zero"))
            ),
        });
        scalars += usize::from(step.has_scalars());
    }
    for dtype in files {
        text.file(dtype.info().source);
    }
    text.line(format!("    return {result};"));
    text.line("}");
    Ok(())
}

/// Reinterprets four values as another dtype of the same element size, as a store and a load would.
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

/// WGSL that tests a condition.
pub(crate) fn holds(compute: Compute, c: &str) -> String {
    match compute {
        Compute::I64 => format!("({c}.x | {c}.y) != 0u"),
        Compute::I32 => format!("{c} != 0i"),
        _ => format!("{c} != 0u"),
    }
}

pub(crate) fn step(op: &'static str, args: &[(Arg, DType)], out: DType) -> Step {
    let args = SmallVec::from_slice(args);
    Step { op, args, out }
}

/// A sample of the expressions that rules fuse, with every op, every cast and every access.
pub fn catalogue() -> Vec<Specialization> {
    let (a, b, c) = (Arg::Read(0), Arg::Read(1), Arg::Read(2));
    let (flat, quads, words) = (Access::Flat, Access::Quads, Access::Words);
    let mut all = Vec::new();
    let new = |reads: Reads<'_>, steps, out| spec(&FUSED_ELEMENTWISE, reads, steps, out);
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
            all.push(new(&[(e, flat), (e, words)], steps.into(), end));
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
        all.push(new(&reads, steps.into(), x));
    }
    for condition in [DType::U32, DType::I16, DType::I32, DType::I64] {
        let steps = [step(
            WHERE_COND_OP,
            &[(a, condition), (b, DType::U16), (c, DType::U16)],
            DType::U16,
        )];
        let reads = [(condition, quads), (DType::U16, quads), (DType::U16, words)];
        all.push(new(&reads, steps.into(), DType::U16));
    }
    all
}
