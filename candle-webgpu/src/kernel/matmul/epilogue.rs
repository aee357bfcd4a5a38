//! Epilogues: elementwise steps that a matmul kernel applies to its accumulators before it stores them. Recorded by the rule
//! `matmul_epilogue`.
//!
//! The result is first rounded to the matmul's dtype, as if it had been stored, so that the bits equal those of two kernels.

use std::collections::HashSet;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::elementwise::fused;
use crate::kernel::elementwise::unary;
use crate::kernel::matmul::gemm::GEMM;
use crate::kernel::matmul::gemm_coop::GEMM_COOP;
use crate::kernel::matmul::gemv::{GEMV_K, GEMV_N};
use crate::kernel::matmul::gemv_coop::GEMV_COOP;
use crate::kernel::matmul::gemv_dot::GEMV_DOT;
use crate::kernel::matmul::gemv_variant::{self, SUB256};
use crate::kernel::matmul::problem::Params as MatmulParams;
use crate::kernel::matmul::{gemm, gemm_coop, gemv, gemv_coop, gemv_dot, gemv_projections, store};
use crate::kernel::reads;
use crate::shader::{
    params, read, write, Access, Arg, Binding, Kernel, Specialization, Step, Text,
};

/// The most operands of the steps besides the matmul, and the most steps with scalars: the room in the parameters.
pub(crate) const MAX_READS: usize = 2;
pub(crate) const MAX_SCALARS: usize = 2;

params! {
    /// The tail of the matmul parameters.
    #[derive(Default)]
    pub(crate) struct Epilogue {
        pub zero: u32,
        /// For a pair, the offset of c minus that of b, in elements of their own bindings. It may wrap.
        pub step: u32,
        pub pad: [u32; 2],
        pub scalars: [[u32; 4]; MAX_SCALARS],
        /// For each operand: its offset, its period in elements, and the index of the last element of y.
        pub reads: [[u32; 4]; MAX_READS],
    }
}

params! {
    pub(crate) struct Params {
        pub matmul: MatmulParams,
        /// The shader's next field is aligned to 16 bytes.
        pub pad: u32,
        pub epilogue: Epilogue,
    }
}

impl Params {
    pub fn new(matmul: MatmulParams) -> Self {
        Params {
            matmul,
            ..bytemuck::Zeroable::zeroed()
        }
    }
}

/// The parameters in WGSL; and, for kernels of projections, theirs.
pub(crate) const PARAMS: &str = wgsl!("kernel/matmul/params.wgsl");
pub(crate) const PARAMS_PROJECTIONS: &str = wgsl!("kernel/matmul/params_projections.wgsl");

/// Kernels that support an epilogue.
const KERNELS: &[&Kernel] = &[&GEMV_K, &GEMV_N, &GEMV_COOP, &GEMV_DOT, &GEMM, &GEMM_COOP];

/// Whether a matmul has neither an epilogue nor bindings beyond its operands.
pub(crate) fn is_bare(spec: &Specialization) -> bool {
    spec.steps.is_none() && spec.added.is_empty()
}

/// Whether an epilogue can be added to a matmul.
pub(crate) fn suits(spec: &Specialization) -> bool {
    let known = KERNELS.iter().any(|kernel| spec.is_of(kernel));
    let scaled = spec.added.iter().all(|b| b.name.ends_with("_scales"));
    known && spec.steps.is_none() && scaled
}

/// Whether an operand of the steps may be as large as y: only in GEMV kernels, since a GEMM cannot hide the latency of its loads.
/// 512 x 5632 x 2048 in f16 on an NVIDIA H200: with y * silu(b), one kernel takes 89.6 us and two take 81.1 us; with y + bias,
/// 74.3 us and 77.8 us.
pub(crate) fn reads_whole(spec: &Specialization) -> bool {
    ![&GEMM, &GEMM_COOP].iter().any(|gemm| spec.is_of(gemm))
}

/// The variant of a kernel that stores a pair's results, but does not read the second matrix.
pub(crate) const PAIR: &str = "pair";

/// Whether half of a tile's columns belong to a second matrix. Steps read both results, or both are stored.
pub(crate) fn is_pair(spec: &Specialization) -> bool {
    // Projections of other kernels bind a second matrix, too, but have no steps.
    let pairs = spec.steps.is_some() || spec.is_of(&GEMM_COOP);
    pairs && spec.binds("c") || spec.variant == PAIR
}

/// The matmul `one` with an epilogue, whose first operand is the matmul's result; the others are `reads`, in words or quads.
pub(crate) fn spec(
    one: &Specialization,
    reads: &[(DType, Access)],
    steps: Arc<[Step]>,
    out: DType,
) -> Option<Specialization> {
    if !suits(one) || reads.len() > MAX_READS {
        return None;
    }
    let mut spec = with_steps(one, steps, out);
    for (name, (dtype, access)) in ["e", "f"].into_iter().zip(reads) {
        spec = spec.bind(read(name), *dtype, *access);
    }
    Some(spec)
}

/// A pair of matmuls with an epilogue that reads both. Half of the columns of a tile of `one` belong to each.
pub(crate) fn pair_spec(one: &Specialization, steps: Arc<[Step]>, out: DType) -> Specialization {
    with_second(with_steps(one, steps, out))
}

/// A pair of matmuls that stores both results, y and z.
pub(crate) fn pair_of(one: &Specialization) -> Specialization {
    let (dtype, access) = one.operands[2];
    with_second(one.clone()).bind(write("z"), dtype, access)
}

/// Adds the second matrix of a pair, and the scales of its lines.
fn with_second(one: Specialization) -> Specialization {
    let (dtype, access) = one.operands[1];
    let c = Binding {
        name: "c",
        ..one.kernel.bindings[1]
    };
    let scaled = one.binds("b_scales");
    let pair = one.bind(c, dtype, access);
    match scaled {
        true => pair.bind(read("c_scales"), DType::F32, Access::Raw),
        false => pair,
    }
}

fn with_steps(one: &Specialization, steps: Arc<[Step]>, out: DType) -> Specialization {
    let mut spec = one.clone();
    spec.operands[2].0 = out;
    spec.steps = Some(steps);
    spec
}

/// The dtype that the steps read operand `at` in.
pub(crate) fn seen(steps: &[Step], at: u8) -> Option<DType> {
    let mut args = steps.iter().flat_map(|step| &step.args);
    args.find(|(arg, _)| *arg == Arg::Read(at))
        .map(|(_, dtype)| *dtype)
}

/// `y_put(at, count, v)` of [`store`], which applies the steps first if there are any: those of `field` of the parameters. For a pair, v
/// has `own` accumulators of the first matmul, followed by those of the second; with four of each, `y_put(at, count, v, w)` takes both, and
/// without steps stores w to z.
pub(crate) fn y_put(spec: &Specialization, own: u32, field: &str, text: &mut Text) -> Result<()> {
    let y = spec.place("y").unwrap_or(2);
    let Some(steps) = &spec.steps else {
        let Some(z) = spec.place("z").filter(|_| is_pair(spec)) else {
            return store::put(spec, y, text);
        };
        text.binding_of(spec, "z", "Z");
        [y, z]
            .into_iter()
            .try_for_each(|at| store::put_as(spec, at, "keep", text))?;
        let body = ["y", "z"].into_iter().zip(["v", "w"]);
        let body = body.map(|(to, from)| format!("{to}_keep(at, count, {from});"));
        let head = "y_put(at: u32, count: u32, v: vec4<f32>, w: vec4<f32>)";
        text.unrolled(head, body);
        return Ok(());
    };
    store::put_as(spec, y, "keep", text)?;
    let place = format!("p.{field}");
    let zero = format!("{place}.zero");
    let kept = DType::F32.info().rounded("v", &zero);
    text.line(format!(
        "fn kept(v: vec4<f32>) -> vec4<f32> {{ return {kept}; }}"
    ));
    let made = seen(steps, 0).unwrap_or(DType::F32);
    let row = made.info();
    text.file(row.source);
    let mut dtypes = SmallVec::<[DType; 4]>::from_slice(&[made]);
    let rounded = |v: &str| match made {
        DType::F32 => format!("kept({v})"),
        _ => row.rounded(v, &zero),
    };
    let mut values = match (is_pair(spec), own) {
        (false, _) => "made".to_string(),
        (true, 1) => "made.xxxx, made.yyyy".to_string(),
        (true, 4) => format!("made, {}", rounded("w")),
        (true, _) => "made.xyxy, made.zwzw".to_string(),
    };
    if is_pair(spec) {
        dtypes.push(made);
    } else {
        for (i, (at, binding)) in operands(spec).enumerate() {
            dtypes.push(spec.dtype(at));
            values += &format!(", {}_four(at)", binding.name);
            text.binding(at + 1, binding);
            operand(binding.name, spec.operands[at], (field, i), own, text);
        }
    }
    fused::steps(steps, &dtypes, &place, text)?;
    let body = [
        format!("let made = {};", rounded("v")),
        format!("y_keep(at, count, steps(In({values})));"),
    ];
    let second = match (is_pair(spec), own) {
        (true, 4) => ", w: vec4<f32>",
        _ => "",
    };
    let head = format!("y_put(at: u32, count: u32, v: vec4<f32>{second})");
    text.unrolled(&head, body);
    Ok(())
}

/// The operands of the steps besides the matmul, with their indices.
fn operands(spec: &Specialization) -> impl Iterator<Item = (usize, &Binding)> {
    let all = spec.bindings().enumerate();
    all.filter(|(_, binding)| ["e", "f"].contains(&binding.name))
}

/// The access of an operand of the steps with as many elements as y, from the element `offset` on. If raw, the kernel [holds](hold) it.
pub(crate) fn whole_access(of: &Specialization, dtype: DType, offset: u32) -> Access {
    let held = of.is_of(&GEMV_K) && of.variant == SUB256.name && gemv_variant::is_one_block(of);
    match held && dtype.info().lanes == 2 && offset.is_multiple_of(2) {
        true => Access::Raw,
        false => Access::Words,
    }
}

/// `hold(n)` and `held()` of a GEMV. `hold` loads the raw operands of the steps before the weights, for two columns from n on: behind the
/// last sum, one thread of a workgroup would wait for them. `held` is what the loop along k has to use (`early.wgsl`).
pub(crate) fn hold(spec: &Specialization, text: &mut Text) {
    let (mut loads, mut bits) = (Vec::new(), "0u".to_string());
    for (i, (at, Binding { name, .. })) in operands(spec).enumerate() {
        if spec.operands[at].1 == Access::Raw {
            text.line(format!("alias {} = u32;", name.to_uppercase()));
            text.line(format!("var<private> {name}_held: u32;"));
            loads.push(format!(
                "{name}_held = {name}[(p.epilogue.reads[{i}].x + n) / 2u];"
            ));
            bits += &format!(" ^ {name}_held");
        }
    }
    text.unrolled("hold(n: u32)", loads);
    text.line(format!("fn held() -> u32 {{ return {bits}; }}"));
}

/// `{n}_four(at)`: the epilogue's `i`-th operand for elements at .. at + `own` of y.
fn operand(
    n: &str,
    (dtype, access): (DType, Access),
    (field, i): (&str, usize),
    own: u32,
    text: &mut Text,
) {
    let (lanes, i) = (format!("{}L", n.to_uppercase()), i.to_string());
    if access == Access::Raw {
        let row = dtype.info();
        text.file(row.source);
        let unpack = row.name;
        text.line(format!(
            "fn {n}_four(at: u32) -> vec4<f32> {{ return {unpack}_unpack(vec2<u32>({n}_held, 0u)); }}"
        ));
    } else if access == Access::Quads {
        let reads = format!("p.{field}.reads[{i}]");
        text.line(format!(
            "fn {n}_four(at: u32) -> {lanes} {{ return {n}_get4(({reads}.x + at % {reads}.y) / 4u); }}"
        ));
    } else {
        let file = wgsl!("kernel/matmul/epilogue_words.wgsl");
        let own = format!("{own}u");
        let names = [
            ("EL", &*lanes),
            ("epilogue", field),
            ("0", &*i),
            ("OWN", &*own),
        ];
        text.part_for(file, ["e", n], &names);
    }
}

const A: Arg = Arg::Read(0);
const B: Arg = Arg::Read(1);

/// A matmul with steps that read no, one and two further operands.
fn samples(one: &Specialization) -> impl Iterator<Item = Specialization> {
    let (dtype, access) = one.operands[2];
    let other = match dtype {
        DType::F32 => DType::Bf16,
        _ => DType::F32,
    };
    let read = reads(access == Access::Put);
    let scaled = [
        fused::step("affine", &[(A, dtype)], dtype),
        fused::step(unary::CAST_OP, &[(Arg::Step(0), dtype)], other),
    ];
    let gated = [
        fused::step("badd", &[(A, dtype), (B, dtype)], dtype),
        fused::step("usilu", &[(Arg::Step(0), dtype)], dtype),
    ];
    let block = [
        fused::step("badd", &[(A, dtype), (B, dtype)], dtype),
        fused::step("ugelu", &[(Arg::Step(0), dtype)], dtype),
        fused::step(
            "bmul",
            &[(Arg::Step(1), dtype), (Arg::Read(2), dtype)],
            dtype,
        ),
    ];
    let reads = [(dtype, read), (dtype, Access::Words)];
    let whole = gemv_variant::with_blocks(one.clone(), 1);
    let held = whole_access(&whole, dtype, 0) == Access::Raw;
    let held = held.then(|| spec(&whole, &[(dtype, Access::Raw)], gated.clone().into(), dtype));
    let all = [
        spec(one, &[], scaled.into(), other),
        spec(one, &reads[..1], gated.into(), dtype),
        spec(one, &reads, block.into(), dtype),
        held.flatten(),
    ];
    all.into_iter().flatten()
}

/// A pair of matmuls like `one` with silu(b) c.
fn gated(one: &Specialization) -> Specialization {
    let dtype = one.dtype(2);
    let steps = [
        fused::step("usilu", &[(A, dtype)], dtype),
        fused::step("bmul", &[(Arg::Step(0), dtype), (B, dtype)], dtype),
    ];
    pair_spec(one, steps.into(), dtype)
}

/// A sample of what the rule links: the matmul kernels in each dtype, with each number of operands, and pairs.
pub fn catalogue() -> Vec<Specialization> {
    let dense = [gemm::catalogue(), gemv::catalogue()].concat();
    let coop = [gemm_coop::catalogue(), gemv_coop::catalogue()].concat();
    let dot = gemv_dot::catalogue();
    let mut taken = HashSet::new();
    let mut taken_pairs = HashSet::new();
    let mut all = Vec::new();
    let candidates = dense.iter().chain(&coop).chain(&dot);
    for one in candidates.filter(|one| suits(one)) {
        let accesses = one.operands.iter().map(|(dtype, access)| match access {
            Access::Quant(_) => (None, std::mem::discriminant(access)),
            _ => (Some(*dtype), std::mem::discriminant(access)),
        });
        let kind = (one.kernel.name, one.variant, one.binds("b_scales"));
        if taken.insert((kind, one.op, accesses.collect::<Vec<_>>())) {
            all.extend(samples(one));
            if gemm_coop::can_pair(one) {
                all.extend([gated(one), pair_of(one)]);
            }
        }
    }
    for projections in gemv_projections::catalogue().iter().chain(&dot) {
        let one = gemv_projections::pair_of(projections).map(|(one, _)| one);
        let pair = one.map(|one| gated(&one));
        all.extend(pair.filter(|pair| taken_pairs.insert(pair.name())));
    }
    all
}
