//! The functions with which a kernel accesses an operand.

use crate::dtype::quant::Quant;
use crate::dtype::DTypeInfo;
use crate::memory::merge::Merged;
use crate::shader::{function, renamed, Access, Text};

/// The functions of a quantized operand. The first quantized operand gets the prefix `w`, whatever the binding's name. A second one of the
/// same format only gets its own load functions, with the binding's name as prefix. `roles`: the kernel uses cooperative matrices.
pub(crate) fn quantized(text: &mut Text, n: &str, quant: Quant, roles: bool) {
    let (up, row) = (n.to_uppercase(), quant.info());
    let again = text.files.contains(&row.source);
    let prefix = if again { n } else { "w" };
    // A, B and C are roles of cooperative matrices.
    if !roles {
        text.line(format!("alias {up} = vec4<u32>;"));
    }
    if !again {
        text.line(format!("const W_SHIFTED = {};", row.shifted));
        text.line(format!("const W_HALVES = {};", row.halves));
        text.line(format!("const W_SPAN = {}u;", row.span));
        text.line(format!("const W_WHOLE = {};", row.whole));
    }
    text.line(format!(
        "fn {prefix}_at(i: u32) -> vec4<u32> {{ return {n}[i]; }}"
    ));
    text.line(format!(
        "fn {prefix}_word(i: u32) -> u32 {{ return {n}[i / 4u][i % 4u]; }}"
    ));
    if again {
        let names = ["at", "word", "load"].map(|f| (format!("w_{f}"), format!("{n}_{f}")));
        let names = names.each_ref().map(|(old, new)| (&**old, &**new));
        text.line(renamed(function(row.source, "w_load"), &names));
    } else {
        text.file(wgsl!("quant/unit.wgsl"));
        text.file(row.source);
    }
}

/// Adds `{n}_at(i)`: the position of logical element `i` of a strided view.
pub(crate) fn strided_at(text: &mut Text, n: &str) {
    text.part_for(wgsl!("lib/strided_at.wgsl"), ["x", n], &[]);
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
    // The word of element `i`, and its lane in that word.
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
            strided_at(text, n);
            text.line(format!(
                "fn {n}_quad(q: u32) -> {four} {{ return {d}_unpack({n}[{n}_at(q * 4u) / 4u]); }}"
            ));
        }
        Access::Strided => {
            strided_at(text, n);
            text.line(get(&format!("{n}[{word}]")));
            text.part_for(wgsl!("lib/strided_quad.wgsl"), ["x", n], &[("XL", four)]);
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
        Access::Set => set(text, n, row),
        Access::Raw | Access::Quant(_) => {}
    }
}

/// Adds functions that write single elements of existing memory, without races between threads that write to the same word.
fn set(text: &mut Text, n: &str, row: &DTypeInfo) {
    let [get, set] = ["get", "set"].map(|f| format!("{}_{f}", row.name));
    let lanes = format!("{}u", row.lanes);
    let value = ("XV", row.compute.wgsl());
    if row.lanes == 1 {
        let names = [value, ("f32_get", &*get)];
        text.part_for(wgsl!("lib/set_word.wgsl"), ["x", n], &names);
    } else {
        let names = [value, ("u8_get", &*get), ("u8_set", &*set), ("4u", &*lanes)];
        text.part_for(wgsl!("lib/set_lane.wgsl"), ["x", n], &names);
    }
}

impl<const N: usize> Merged<N> {
    /// The cheapest access for operand `k` of this layout at `offset`.
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
