//! The slot linker: the only place that builds shader text. See `wgsl/README.md` for the contract.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::elem::{Compute, Elem, ElemRow};
use crate::error::{Error, Result};
use crate::kernel::chain::{self, Step};
use crate::quant::Quant;

/// How a kernel reaches an operand; the functions each kind gets are listed in `wgsl/README.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    Flat,
    Rows,
    Strided,
    Words,
    Quads,
    Put,
    PutWord,
    Set,
    /// Blocks of a quantized dtype; the Elem of the operand does not count.
    Quant(Quant),
    Raw,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Quant(quant) => quant.row().name,
            Access::Flat => "flat",
            Access::Rows => "rows",
            Access::Strided => "strided",
            Access::Words => "words",
            Access::Quads => "quads",
            Access::Put => "put",
            Access::PutWord => "putword",
            Access::Set => "set",
            Access::Raw => "raw",
        }
    }
}

/// A storage buffer of a kernel, in binding order from 1.
#[derive(Debug)]
pub struct Binding {
    pub name: &'static str,
    /// Bound for writing.
    pub write: bool,
    /// Only read, though bound for writing.
    pub held: bool,
}

pub const fn read(name: &'static str) -> Binding {
    Binding {
        name,
        write: false,
        held: false,
    }
}

pub const fn write(name: &'static str) -> Binding {
    Binding {
        name,
        write: true,
        held: false,
    }
}

/// Memory that is only read, bound as if it were written so that compilers leave its loads where they stand: NVIDIA's (driver
/// 580) moves loads of read-only memory past barriers to where their values are used.
pub const fn held(name: &'static str) -> Binding {
    Binding {
        name,
        write: true,
        held: true,
    }
}

/// A row that stands for one file of `wgsl/kernel/`.
pub struct Kernel {
    /// The file's name, the first part of the pipeline's label.
    pub name: &'static str,
    pub source: &'static str,
    pub bindings: &'static [Binding],
    /// Value of `override WORKGROUP` and the number of invocations in a workgroup.
    pub workgroup: u32,
    /// Bytes of workgroup memory that a specialisation takes.
    pub shared: fn(&Spec) -> u32,
    /// Features that the text cannot do without.
    pub features: wgpu::Features,
    /// Writes the slots beyond those of the operands, and names the files to link.
    pub slots: fn(&Spec, &mut Text) -> Result<()>,
}

impl Kernel {
    /// Whether only naga can read it: browsers have no cooperative matrices.
    pub fn is_native(&self) -> bool {
        let native = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        self.features.contains(native)
    }
}

/// A kernel with all its slots decided: the key of the pipeline cache and the recipe of its text.
#[derive(Clone)]
pub struct Spec {
    pub kernel: &'static Kernel,
    /// A row of OPS, or what the kernel's `slots` understands.
    pub op: &'static str,
    pub operands: SmallVec<[(Elem, Access); 5]>,
    /// Values of overrides other than WORKGROUP.
    pub overrides: SmallVec<[(&'static str, u32); 2]>,
    /// The ops of a chain.
    pub steps: Option<Arc<[Step]>>,
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.kernel.name, other.kernel.name)
            && self.op == other.op
            && self.operands == other.operands
            && self.overrides == other.overrides
            && self.steps == other.steps
    }
}
impl Eq for Spec {}
impl Hash for Spec {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.kernel.name.as_ptr().hash(h);
        self.op.as_ptr().hash(h);
        self.operands.hash(h);
        self.overrides.hash(h);
        self.steps.hash(h);
    }
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Spec {
    pub fn new(kernel: &'static Kernel, op: &'static str, operands: &[(Elem, Access)]) -> Self {
        Spec {
            kernel,
            op,
            operands: SmallVec::from_slice(operands),
            overrides: SmallVec::new(),
            steps: None,
        }
    }

    pub fn with(mut self, name: &'static str, value: u32) -> Self {
        self.overrides.push((name, value));
        self
    }

    /// For example `map.uexp.f32:flat.f32:put`.
    pub fn name(&self) -> String {
        let mut name = self.kernel.name.to_string();
        if !self.op.is_empty() {
            let _ = write!(name, ".{}", self.op);
        }
        if let Some(steps) = &self.steps {
            let _ = write!(name, ".{}", chain::name(steps));
        }
        for (elem, access) in &self.operands {
            let _ = match access {
                Access::Quant(_) => write!(name, ".{}", access.name()),
                _ => write!(name, ".{elem}:{}", access.name()),
            };
        }
        for (key, value) in &self.overrides {
            let _ = write!(name, ".{key}={value}");
        }
        name
    }

    /// The dtype of operand `i`.
    pub fn elem(&self, i: usize) -> Elem {
        self.operands[i].0
    }

    /// The row of ELEMS of operand `i`.
    pub fn row(&self, i: usize) -> Result<&'static ElemRow> {
        self.elem(i).row(if self.op.is_empty() {
            self.kernel.name
        } else {
            self.op
        })
    }
}

/// Who reads the text: naga refuses headers that Tint requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Naga,
    Tint,
}

const F16: &str = include_str!("../wgsl/dtype/f16.wgsl");
const F16_PACKS: &str = include_str!("../wgsl/dtype/f16_packs.wgsl");

/// The text under construction.
pub struct Text {
    slots: String,
    files: Vec<&'static str>,
    renamed: Vec<String>,
}

impl Text {
    /// Adds a line to the slot block.
    pub fn line(&mut self, line: impl AsRef<str>) {
        self.slots.push_str(line.as_ref());
        self.slots.push('\n');
    }

    /// Links a file of functions, once.
    pub fn file(&mut self, source: &'static str) {
        if !self.files.iter().any(|f| std::ptr::eq(*f, source)) {
            self.files.push(source);
        }
    }

    /// Links a file of functions once more, for another operand: with other names.
    pub fn file_of(&mut self, source: &str, names: &[(&str, &str)]) {
        self.renamed.push(renamed(&without_slots(source), names));
    }

    /// Adds `{n}_at(i)` for an operand that does its own stores.
    pub fn strided_at(&mut self, n: &str) {
        self.line(strided_at(n));
    }

    /// Links the operators of a compute type.
    pub fn ops(&mut self, compute: Compute) {
        self.file(crate::op::op_source(compute));
    }
}

/// The text of a specialisation, for any adapter.
pub fn link(spec: &Spec, target: Target) -> Result<String> {
    link_for(spec, target, false)
}

/// The same for an adapter whose `pack2x16float` is known to round to f16 as it should, if `packs`.
pub fn link_for(spec: &Spec, target: Target, packs: bool) -> Result<String> {
    let kernel = spec.kernel;
    let mut text = Text {
        slots: String::new(),
        files: Vec::new(),
        renamed: Vec::new(),
    };
    for (binding, (elem, access)) in kernel.bindings.iter().zip(&spec.operands) {
        if let Access::Quant(quant) = access {
            quantized(&mut text, binding.name, *quant);
        } else if *access != Access::Raw {
            let row = elem.row(if spec.op.is_empty() {
                kernel.name
            } else {
                spec.op
            })?;
            text.file(row.source);
            operand(&mut text, binding.name, row, *access);
        }
    }
    (kernel.slots)(spec, &mut text)?;

    let lost = || Error::Shader {
        name: spec.name(),
        message: "the kernel file has no slot block".into(),
    };
    let (head, rest) = kernel.source.split_once("// slots:").ok_or_else(lost)?;
    let (_, tail) = rest.split_once("// end slots").ok_or_else(lost)?;
    let mut out = String::new();
    if target == Target::Tint && kernel.features.contains(wgpu::Features::SUBGROUP) {
        out.push_str("enable subgroups;\n");
    }
    let _ = writeln!(out, "// {}", spec.name());
    out.push_str(head);
    out.push_str(&text.slots);
    out.push_str(tail);
    for file in &text.files {
        let file = match *file {
            F16 if packs => F16_PACKS,
            file => file,
        };
        out.push('\n');
        out.push_str(&without_slots(file));
    }
    for file in &text.renamed {
        out.push('\n');
        out.push_str(file);
    }
    Ok(out)
}

/// Text with other identifiers in the place of some.
pub(crate) fn renamed(text: &str, names: &[(&str, &str)]) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first));
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        let new = names.iter().find(|(old, _)| *old == word);
        out.push_str(new.map_or(word, |(_, new)| new));
        rest = after;
    }
    out
}

/// One function of a file, which ends with the first brace at the start of a line or with its only line.
fn function<'a>(file: &'a str, name: &str) -> &'a str {
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

/// A linked file without its slot block, which stands for what its user brings.
fn without_slots(file: &str) -> Cow<'_, str> {
    match file.split_once("// slots:") {
        Some((head, rest)) => match rest.split_once("// end slots") {
            Some((_, tail)) => Cow::Owned([head, tail].concat()),
            None => Cow::Borrowed(file),
        },
        None => Cow::Borrowed(file),
    }
}

/// The functions of a quantized operand. They are called `w` whatever its binding; those that load from another of the same format
/// begin with its name.
fn quantized(text: &mut Text, n: &str, quant: Quant) {
    let (up, row) = (n.to_uppercase(), quant.row());
    text.line(format!("alias {up} = vec4<u32>;"));
    if text.files.iter().any(|f| std::ptr::eq(*f, row.source)) {
        let names = ["at", "word", "load"].map(|f| (format!("w_{f}"), format!("{n}_{f}")));
        let names = names.each_ref().map(|(old, new)| (&**old, &**new));
        let load = renamed(function(row.source, "w_load"), &names);
        text.line(format!(
            "fn {n}_at(i: u32) -> vec4<u32> {{ return {n}[i]; }}
fn {n}_word(i: u32) -> u32 {{ return {n}[i / 4u][i % 4u]; }}
{load}"
        ));
        return;
    }
    text.line(format!("const W_SHIFTED = {};", row.shifted));
    text.line(format!("const W_HALVES = {};", row.halves));
    text.line(format!("const W_SPAN = {}u;", row.span));
    text.line(format!("const W_WHOLE = {};", row.whole));
    text.line(format!(
        "fn w_at(i: u32) -> vec4<u32> {{ return {n}[i]; }}
fn w_word(i: u32) -> u32 {{ return {n}[i / 4u][i % 4u]; }}"
    ));
    text.file(include_str!("../wgsl/lib/unit.wgsl"));
    text.file(row.source);
}

/// The aliases and functions of one operand.
fn operand(text: &mut Text, n: &str, row: &ElemRow, access: Access) {
    let up = n.to_uppercase();
    let (d, lanes, value, four) = (row.name, row.lanes, row.compute.wgsl(), row.compute.lanes());
    let quads = matches!(
        access,
        Access::Flat | Access::Rows | Access::Quads | Access::Put
    );
    let storage = match access {
        _ if quads => row.quad,
        Access::Set if lanes > 1 => "atomic<u32>",
        _ => row.word,
    };
    text.line(format!("alias {up} = {storage};"));
    text.line(format!("alias {up}V = {value};"));
    text.line(format!("alias {up}L = {four};"));
    text.line(format!("const {up}_LANES = {lanes}u;"));
    // The word of element `i`, and its lane there.
    let (word, lane) = match lanes {
        1 => ("i".to_string(), "0u".to_string()),
        _ => (format!("i / {lanes}u"), format!("i % {lanes}u")),
    };
    let get =
        |load: &str| format!("fn {n}_get(i: u32) -> {value} {{ return {d}_get({load}, {lane}); }}");
    match access {
        Access::Flat => text.line(format!(
            "fn {n}_quad(q: u32) -> {four} {{ return {d}_unpack({n}[p.{n}_offset / 4u + q]); }}"
        )),
        Access::Rows => {
            text.line(strided_at(n));
            text.line(format!(
                "fn {n}_quad(q: u32) -> {four} {{ return {d}_unpack({n}[{n}_at(q * 4u) / 4u]); }}"
            ));
        }
        Access::Strided => {
            text.line(strided_at(n));
            text.line(get(&format!("{n}[{word}]")));
            text.line(strided_quad(n, four));
        }
        Access::Words => text.line(get(&format!("{n}[{word}]"))),
        Access::Quads => text.line(format!(
            "fn {n}_get4(at4: u32) -> {four} {{ return {d}_unpack({n}[at4]); }}"
        )),
        Access::Put => text.line(format!(
            "fn {n}_quad_put(q: u32, v: {four}) {{ {n}[q] = {d}_pack(v); }}"
        )),
        Access::PutWord => text.line(format!(
            "fn {n}_word_put(w: u32, v: {four}) {{ {n}[w] = {d}_word(v); }}"
        )),
        Access::Set => set(text, n, row, &word, &lane),
        Access::Raw | Access::Quant(_) => {}
    }
}

/// Where logical element `i` of a strided view lies: digits of `i` in the mixed radix of the dims.
fn strided_at(n: &str) -> String {
    format!(
        "fn {n}_at(i: u32) -> u32 {{
    var rest = i;
    var at = p.{n}_offset;
    for (var d = p.rank - 1u; d > 0u; d--) {{
        let size = p.dims[d / 4u][d % 4u];
        let next = rest / size;
        at += (rest - next * size) * p.{n}_strides[d / 4u][d % 4u];
        rest = next;
    }}
    return at + rest * p.{n}_strides[0][0];
}}"
    )
}

/// Four elements of a strided view; one chain of divisions where they lie in one row.
fn strided_quad(n: &str, four: &str) -> String {
    format!(
        "fn {n}_quad(q: u32) -> {four} {{
    let i = q * 4u;
    let d = p.rank - 1u;
    let size = p.dims[d / 4u][d % 4u];
    if i % size + 4u <= size {{
        let at = {n}_at(i);
        let s = p.{n}_strides[d / 4u][d % 4u];
        return {four}({n}_get(at), {n}_get(at + s), {n}_get(at + 2u * s), {n}_get(at + 3u * s));
    }}
    let last = p.n - 1u;
    return {four}({n}_get({n}_at(i)), {n}_get({n}_at(min(i + 1u, last))), {n}_get({n}_at(min(i + 2u, last))), {n}_get({n}_at(min(i + 3u, last))));
}}"
    )
}

/// Single elements of existing memory. Neighbours in a packed word belong to other threads, so the
/// word is changed by compare-and-swap.
fn set(text: &mut Text, n: &str, row: &ElemRow, word: &str, lane: &str) {
    let (d, value) = (row.name, row.compute.wgsl());
    if row.lanes == 1 {
        text.line(format!(
            "fn {n}_get(i: u32) -> {value} {{ return {d}_get({n}[i], 0u); }}
fn {n}_set(i: u32, v: {value}) {{ {n}[i] = v; }}
fn {n}_add(i: u32, v: {value}) {{ {n}[i] = badd({n}[i], v); }}"
        ));
    } else {
        let swap = |new: &str| {
            format!(
                "    var old = atomicLoad(&{n}[{word}]);
    loop {{
        let swap = atomicCompareExchangeWeak(&{n}[{word}], old, {d}_set(old, {lane}, {new}));
        if swap.exchanged {{ break; }}
        old = swap.old_value;
    }}"
            )
        };
        text.line(format!(
            "fn {n}_get(i: u32) -> {value} {{ return {d}_get(atomicLoad(&{n}[{word}]), {lane}); }}
fn {n}_set(i: u32, v: {value}) {{
{}
}}
fn {n}_add(i: u32, v: {value}) {{
{}
}}",
            swap("v"),
            swap(&format!("badd({d}_get(old, {lane}), v)"))
        ));
    }
}
