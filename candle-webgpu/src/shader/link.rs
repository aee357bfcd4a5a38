//! The slot linker: the only place that builds shader text. See `wgsl/README.md` for the contract.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::dtype::Compute;
use crate::error::{Error, Result};
use crate::shader::operand::{operand, quantized, strided_at};
use crate::shader::reachable::reachable;
use crate::shader::unroll::unroll;
use crate::shader::{Access, Binding, Specialization};

/// The WGSL compiler: naga rejects `enable` directives that Tint requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Naga,
    Tint,
}

const F16: &str = wgsl!("dtype/f16.wgsl");
const F16_PACKS: &str = wgsl!("dtype/f16_packs.wgsl");

/// Optional abilities of an adapter that change shader text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traits {
    /// `pack2x16float` rounds to nearest even (tested on the device).
    pub packs: bool,
    /// Parameters are immediates instead of a uniform buffer.
    pub immediates: bool,
}

/// The declaration of parameters in a kernel's file, and its replacement for immediates.
const PARAMS: [&str; 2] = [
    "@group(0) @binding(0) var<uniform> p: Params;",
    "var<immediate> p: Params;",
];

/// The text under construction.
pub struct Text {
    slots: String,
    pub(crate) files: Vec<&'static str>,
    renamed: Vec<String>,
}

impl Text {
    /// Adds a line to the slot block.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.slots.push_str(line.as_ref());
        self.slots.push('\n');
    }

    /// Adds the declarations after a file's slot block to this slot block.
    pub fn part(&mut self, source: &str) {
        self.part_for(source, ["", ""], &[]);
    }

    /// [`part`](Self::part), with identifiers renamed by `for_operand`.
    pub fn part_for(&mut self, source: &str, operand: [&str; 2], names: &[(&str, &str)]) {
        let part = source.rsplit("// end slots").next().unwrap_or(source);
        self.line(for_operand(part.trim(), operand, names));
    }

    /// Adds `const NAME = value;` for each pair.
    pub fn constants(&mut self, values: &[(&str, u32)]) {
        for (name, value) in values {
            self.line(format!("const {name} = {value}u;"));
        }
    }

    /// Adds a function with an unrolled body.
    pub fn unrolled(&mut self, head: &str, body: impl IntoIterator<Item = String>) {
        self.line(format!("fn {head} {{"));
        for line in body {
            self.line(format!("    {line}"));
        }
        self.line("}");
    }

    /// Links a file of functions once. Files are compared by their text, since the address of a constant differs between codegen units.
    pub fn file(&mut self, source: &'static str) {
        if !self.files.contains(&source) {
            self.files.push(source);
        }
    }

    /// Links a file of functions again for another operand, with identifiers renamed by `(old, new)` pairs.
    pub fn file_of(&mut self, source: &str, names: &[(&str, &str)]) {
        self.renamed.push(renamed(&without_slots(source), names));
    }

    /// Declares the operands from index `first` on, if the kernel file does not.
    pub fn bindings(&mut self, spec: &Specialization, first: usize) {
        for (at, binding) in (1..).zip(spec.bindings()).skip(first) {
            self.binding(at, binding);
        }
    }

    /// Declares one operand at binding `at`.
    pub fn binding(&mut self, at: usize, binding: &Binding) {
        self.array(at, binding, &binding.name.to_uppercase());
    }

    /// Declares the operand of this name, if there is one, as an array of `element`.
    pub fn binding_of(&mut self, spec: &Specialization, name: &str, element: &str) {
        let mut all = (1..).zip(spec.bindings());
        if let Some((at, binding)) = all.find(|(_, binding)| binding.name == name) {
            self.array(at, binding, element);
        }
    }

    fn array(&mut self, at: usize, binding: &Binding, element: &str) {
        let access = if binding.write { "read_write" } else { "read" };
        let n = binding.name;
        self.line(format!(
            "@group(0) @binding({at}) var<storage, {access}> {n}: array<{element}>;"
        ));
    }

    /// Adds `{n}_at(i)` for an operand that the kernel accesses directly.
    pub fn strided_at(&mut self, n: &str) {
        strided_at(self, n);
    }

    /// Links the operators of a compute type.
    pub fn ops(&mut self, compute: Compute) {
        self.file(crate::op::op_source(compute));
    }
}

/// The shader text of a specialization that works on every adapter.
pub fn link(spec: &Specialization, target: Target) -> Result<String> {
    link_for(spec, target, Traits::default())
}

/// [`link`] for an adapter with these traits.
pub fn link_for(spec: &Specialization, target: Target, traits: Traits) -> Result<String> {
    let kernel = spec.kernel;
    let mut text = Text {
        slots: String::new(),
        files: vec![wgsl!("dtype/pair.wgsl")],
        renamed: Vec::new(),
    };
    let roles = spec
        .features
        .contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
    for (binding, (dtype, access)) in spec.bindings().zip(&spec.operands) {
        if let Access::Quant(quant) = access {
            quantized(&mut text, binding.name, *quant, roles);
        } else if *access != Access::Raw {
            let row = dtype.info();
            text.file(row.source);
            operand(&mut text, binding.name, row, *access);
        }
    }
    (kernel.slots)(spec, &mut text)?;

    let lost = |what: &str| Error::Shader {
        name: spec.name(),
        message: format!("the kernel file has no {what}"),
    };
    let (head, rest) = kernel
        .source
        .split_once("// slots:")
        .ok_or_else(|| lost("slot block"))?;
    let (_, tail) = rest
        .split_once("// end slots")
        .ok_or_else(|| lost("end of slots"))?;
    let mut out = String::new();
    if target == Target::Tint && spec.features.contains(wgpu::Features::SUBGROUP) {
        out.push_str("enable subgroups;\n");
    }
    let _ = writeln!(out, "// {}", spec.name());
    out.push_str(head);
    out.push_str(&text.slots);
    if traits.immediates {
        let [uniform, immediate] = PARAMS;
        let (before, behind) = tail.split_once(uniform).ok_or_else(|| lost("parameters"))?;
        out.extend([before, immediate, behind]);
    } else {
        out.push_str(tail);
    }
    for file in &text.files {
        let file = match *file {
            F16 if traits.packs => F16_PACKS,
            file => file,
        };
        out.push('\n');
        out.push_str(&without_slots(file));
    }
    for file in &text.renamed {
        out.push('\n');
        out.push_str(file);
    }
    let unrolled = unroll(&reachable(&out));
    let out = unrolled.map_err(|message| Error::Shader {
        name: spec.name(),
        message,
    })?;
    if crashes_drivers(&out) {
        let message = "cooperative matrices and subgroup arithmetic cannot be in one module".into();
        let name = spec.name();
        return Err(Error::Shader { name, message });
    }
    Ok(out)
}

/// Whether a shader has both cooperative matrices and subgroup arithmetic. NVIDIA's driver 595.58 ends the process when it compiles one
/// (blade#333). Votes and shuffles are no arithmetic.
fn crashes_drivers(text: &str) -> bool {
    let arithmetic = [
        "Add",
        "Mul",
        "Min",
        "Max",
        "And",
        "Or",
        "Xor",
        "Inclusive",
        "Exclusive",
    ];
    let mut calls = text.split("subgroup").skip(1);
    text.contains("coop_mat")
        && calls.any(|call| arithmetic.iter().any(|name| call.starts_with(name)))
}

/// Text with identifiers renamed by `(old, new)` pairs.
pub(crate) fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    for_operand(text, ["", ""], names)
}

/// Renames the operand `old` to `new`: the identifiers `old` and `OLD`, and those that begin with `old_` or `OLD_`. `names` are `(old, new)`
/// pairs of other identifiers, and of exceptions.
fn for_operand(text: &str, [old, new]: [&str; 2], names: &[(&str, &str)]) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (old_up, new_up) = (old.to_uppercase(), new.to_uppercase());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first));
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let of_operand = |old: &str| {
            let tail = word.strip_prefix(old).filter(|_| !old.is_empty())?;
            (tail.is_empty() || tail.starts_with('_')).then_some(tail)
        };
        if let Some((_, name)) = names.iter().find(|(old, _)| *old == word) {
            out.push_str(name);
        } else if let Some(tail) = of_operand(old) {
            out.extend([new, tail]);
        } else if let Some(tail) = of_operand(&old_up) {
            out.extend([&new_up, tail]);
        } else {
            out.push_str(word);
        }
    }
    out
}

/// The text of a function in a file. It ends at the first `}` that begins a line, unless the function is one line long.
pub(crate) fn function<'a>(file: &'a str, name: &str) -> &'a str {
    let Some(start) = file.find(&format!("fn {name}(")) else {
        return "";
    };
    let rest = &file[start..];
    let line = rest.find('\n').unwrap_or(rest.len());
    if rest[..line].ends_with('}') {
        return &rest[..line];
    }
    let end = rest.find("\n}").map_or(rest.len(), |at| at + 2);
    &rest[..end]
}

/// A linked file without its slot block, since the kernel provides those declarations.
fn without_slots(file: &str) -> Cow<'_, str> {
    match file.split_once("// slots:") {
        Some((head, rest)) => match rest.split_once("// end slots") {
            Some((_, tail)) => Cow::Owned([head, tail].concat()),
            None => Cow::Borrowed(file),
        },
        None => Cow::Borrowed(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crashes_drivers_is_found() {
        let coop = "alias Left = coop_mat16x16<f16, A>;";
        for (call, expected) in [
            ("subgroupAdd(x)", true),
            ("subgroupExclusiveMul(x)", true),
            ("subgroupAll(x)", false),
            ("subgroupShuffleXor(x, 1u)", false),
        ] {
            assert_eq!(
                crashes_drivers(&format!("{coop} {call}")),
                expected,
                "{call}"
            );
            assert!(!crashes_drivers(call));
        }
    }

    /// In release builds, one constant may have several addresses.
    #[test]
    fn equal_files_are_linked_once() {
        let mut text = Text {
            slots: String::new(),
            files: Vec::new(),
            renamed: Vec::new(),
        };
        text.file(F16);
        text.file(F16.to_owned().leak());
        assert_eq!(text.files, [F16]);
    }
}
