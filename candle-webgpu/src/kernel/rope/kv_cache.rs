//! RoPE of queries and keys that writes the keys to the KV cache at once, and copies the values beside them: `rope_qk` with the copies
//! behind it. Recorded only by the rule of the same name.

use crate::error::Result;
use crate::kernel::rope::qk::{self, rotate_slots, QkParams, ROPE_QK};
use crate::shader::{function, read, renamed, Access, Kernel, Specialization, Text};

/// The rotated keys, the new values, and the keys and values before them.
pub(crate) const PARTS: usize = 4;

pub static ROPE_KV_CACHE: Kernel = Kernel {
    name: "rope_kv_cache",
    slots,
    ..kernel!(
        "rope", "rope_qk", QkParams::LAYOUT;
        read x, read c, read s, write y, read u, write w, read a, write z
    )
};

/// The specialization that does what one of `rope_qk` and `parts` copies do, if all operands are in whole quads: with two parts it
/// writes into existing caches, with [`PARTS`] it makes new caches of the old keys `b` and values `e` and the new ones.
pub(crate) fn spec(qk: &Specialization, parts: usize) -> Option<Specialization> {
    let mut operands = qk.operands.to_vec();
    let (dtype, access) = *operands.first()?;
    if access != Access::Quads {
        return None;
    }
    operands.extend([(dtype, Access::Quads), (dtype, Access::Put)]);
    let spec = Specialization::new(&ROPE_KV_CACHE, qk.op, &operands);
    match parts {
        2 => Some(spec),
        PARTS => {
            let bind = |spec: Specialization, n| spec.bind(read(n), dtype, Access::Quads);
            Some(["b", "e"].into_iter().fold(spec, bind))
        }
        _ => None,
    }
}

/// Where the keys go, and the copies: what each writes and reads.
fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    const COPY: &str = wgsl!("kernel/rope/kv_copy.wgsl");
    const COPIES: [(&str, &str); PARTS - 1] = [("z", "a"), ("w", "b"), ("z", "e")];
    rotate_slots(spec, text);
    text.bindings(spec, ROPE_QK.bindings.len());
    text.line(function(COPY, "w_place"));
    let mut body = vec!["var q = i;".to_string()];
    let copies = if spec.binds("b") { PARTS - 1 } else { 1 };
    for (part, (to, from)) in (1..).zip(&COPIES[..copies]) {
        let (name, number) = (format!("copy_{part}"), part.to_string());
        let names = [
            ("copy_part", &*name),
            ("PART", &*number),
            ("place_buffer", to),
            ("source_buffer", from),
        ];
        text.line(renamed(function(COPY, "copy_part"), &names));
        body.push(format!("if q < p.parts[{part}].n {{"));
        body.push(format!("    {name}(q);"));
        body.extend(["    return;", "}"].map(String::from));
        body.push(format!("q -= p.parts[{part}].n;"));
    }
    text.unrolled("copy(i: u32)", body);
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let all = qk::catalogue().into_iter();
    all.flat_map(|qk| [spec(&qk, 2), spec(&qk, PARTS)])
        .flatten()
        .collect()
}
