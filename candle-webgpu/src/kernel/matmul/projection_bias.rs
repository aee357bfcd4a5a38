//! Biases of fused projections, which the kernel adds to its results. Recorded by the rule of the same name.
//!
//! A result is first rounded to its dtype, as if it had been stored, so that the bits equal those of two kernels.

use crate::dtype::quant::Quant;
use crate::error::Result;
use crate::kernel::matmul::store::put_as;
use crate::shader::{read, Access, Binding, Specialization, Text};

/// Bindings of the biases of the first, second and third result.
const BIASES: [&str; 3] = ["bias_y", "bias_z", "bias_w"];

/// Whether a binding is a bias.
pub(crate) fn is_bias(binding: &Binding) -> bool {
    BIASES.contains(&binding.name)
}

/// The specialization that adds biases to the results numbered `which`.
pub(crate) fn spec(projections: &Specialization, which: &[usize]) -> Specialization {
    which.iter().fold(projections.clone(), |spec, &which| {
        let dtype = spec.dtype(2 + 2 * which);
        spec.bind(read(BIASES[which]), dtype, Access::Words)
    })
}

/// `{n}_put(at, count, v)` of [`put_as`] for result `which`, which adds its bias if it has one, and declares the bias.
pub(crate) fn put(spec: &Specialization, which: usize, text: &mut Text) -> Result<()> {
    let result = 2 + 2 * which;
    let mut bindings = (1..).zip(spec.bindings());
    let Some((at, bias)) = bindings.find(|(_, binding)| binding.name == BIASES[which]) else {
        return put_as(spec, result, "put", text);
    };
    text.binding(at, bias);
    put_as(spec, result, "keep", text)?;
    let n = spec.binding(result).map_or("", |binding| binding.name);
    let row = spec.info(result);
    text.file(row.source);
    let rounded = row.rounded("v", "p.epilogue.zero");
    text.line(format!(
        "fn {n}_rounded(v: vec4<f32>) -> vec4<f32> {{ return {rounded}; }}"
    ));
    let (get, which) = (format!("{}_get", bias.name), which.to_string());
    let names = [("bias_get", &*get), ("0", &*which)];
    text.part_for(
        wgsl!("kernel/matmul/projection_bias.wgsl"),
        ["out", n],
        &names,
    );
    Ok(())
}

/// A sample of what the rule links: these projections with a bias each, and with none for the second of three; of quantized formats, one.
pub(crate) fn samples(all: impl Iterator<Item = Specialization>) -> Vec<Specialization> {
    let of_sample = |spec: &Specialization| match spec.operands[1].1 {
        Access::Quant(quant) => quant == Quant::Q4_0,
        _ => true,
    };
    all.filter(of_sample)
        .flat_map(|one| match one.binds("d") {
            true => vec![spec(&one, &[0, 1, 2]), spec(&one, &[0, 2])],
            false => vec![spec(&one, &[0, 1])],
        })
        .collect()
}
