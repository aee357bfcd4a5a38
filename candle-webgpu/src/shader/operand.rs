//! The functions by which a kernel reaches an operand, in WGSL.

use crate::dtype::quant::Quant;
use crate::dtype::DTypeInfo;
use crate::memory::view::Merged;
use crate::shader::{function, renamed, Access, Text};

/// The functions of a quantized operand. They are called `w` whatever its binding; those that load from another of the same format
/// begin with its name.
pub(crate) fn quantized(text: &mut Text, n: &str, quant: Quant) {
    let (up, row) = (n.to_uppercase(), quant.info());
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
    text.file(wgsl!("quant/unit.wgsl"));
    text.file(row.source);
}

/// The aliases and functions of one operand.
pub(crate) fn operand(text: &mut Text, n: &str, row: &DTypeInfo, access: Access) {
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
pub(crate) fn strided_at(n: &str) -> String {
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
fn set(text: &mut Text, n: &str, row: &DTypeInfo, word: &str, lane: &str) {
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

impl<const N: usize> Merged<N> {
    /// The cheapest access that reads operand `k` of this layout, from `offset`.
    pub fn access(&self, k: usize, offset: usize) -> Access {
        let (dims, strides) = (&self.dims[..self.rank], &self.strides[k][..self.rank]);
        let inner = self.rank - 1;
        let flat = {
            let mut expected = 1;
            dims.iter().zip(strides).rev().all(|(&d, &s)| {
                let ok = d == 1 || s == expected;
                expected *= d;
                ok
            })
        };
        if offset.is_multiple_of(4) && flat {
            Access::Flat
        } else if offset.is_multiple_of(4)
            && strides[inner] == 1
            && dims[inner] % 4 == 0
            && strides[..inner].iter().all(|s| s % 4 == 0)
        {
            Access::Rows
        } else {
            Access::Strided
        }
    }
}
