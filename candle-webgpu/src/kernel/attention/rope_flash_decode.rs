//! rope_flash_decode: `flash_decode_sub` of queries that it rotates, which also writes the newest key and value to the KV cache:
//! `rope_kv_cache` and the attention behind it. Recorded only by the rule `rope_attention`.

use crate::error::Result;
use crate::kernel::attention::flash::{four_slots, score_slots};
use crate::kernel::attention::flash_decode::{block, block_slots, FLASH_DECODE_SUB, ROW_QUADS};
use crate::kernel::attention::flash_decode_coop::{
    FLASH_DECODE_COOP, ROPE_FLASH_DECODE_COOP, ROPE_FLASH_DECODE_COOP_IN_PLACE,
};
use crate::kernel::attention::plan::Params;
use crate::kernel::rope::kv_cache;
use crate::kernel::rope::qk::with_norms;
use crate::kernel::rope::rotated;
use crate::shader::{function, read, renamed, write, Access, Kernel, Specialization, Text};

/// `q` are the queries before RoPE, `u` the newest keys before it, `t` the newest values, `k` and `v` the caches without them, `w` and `z` those
/// with them.
pub static ROPE_FLASH_DECODE: Kernel = Kernel {
    name: "rope_flash_decode",
    shared: |spec| block(spec).shared() + 2 * 16 * ROW_QUADS,
    slots: |spec, text| {
        block_slots(spec, text);
        rope_slots(spec, text)
    },
    ..FLASH_DECODE_SUB
};

/// The same for caches that have room for the newest row, which it writes there.
pub static ROPE_FLASH_DECODE_IN_PLACE: Kernel = Kernel {
    name: "rope_flash_decode_in_place",
    bindings: &[read("q"), write("k"), write("v"), read("mask"), write("y")],
    ..ROPE_FLASH_DECODE
};

/// Kernels of attention, and those that do the same with RoPE and a KV cache, in new memory and in place.
#[rustfmt::skip]
static KERNELS: &[[&Kernel; 3]] = &[
    [&FLASH_DECODE_SUB,  &ROPE_FLASH_DECODE,      &ROPE_FLASH_DECODE_IN_PLACE],
    [&FLASH_DECODE_COOP, &ROPE_FLASH_DECODE_COOP, &ROPE_FLASH_DECODE_COOP_IN_PLACE],
];

/// Rows that a thread copies: so many loads are in flight at once, since the attention's registers leave few threads.
const COPIED: u32 = 8;

/// The operand in whose place the cosines are bound: the kernel has no mask, and browsers have at most 10 storage buffers.
const COSINES: usize = 3;

/// The specialization that does what one of `flash_decode_sub` and one of `rope_kv_cache` do. Its variant says which pairs RoPE rotates.
pub(crate) fn spec(rope: &Specialization, flash: &Specialization) -> Option<Specialization> {
    let [x, c, s, ..] = rope.operands[..] else {
        return None;
    };
    let [_, copying, in_place] = KERNELS.iter().find(|[plain, ..]| flash.is_of(plain))?;
    if flash.value("MASKED") != Some(0) || flash.operands[0] != x {
        return None;
    }
    let (kernel, writes): (_, &[_]) = match rope.added.is_empty() {
        true => (in_place, &[]),
        false => (copying, &["w", "z"]),
    };
    let reads = [("s", s), ("u", x), ("t", x)].map(|(n, how)| (read(n), how));
    let writes = writes.iter().map(|n| (write(n), (x.0, Access::Put)));
    let mut spec = flash.clone().variant(rope.op);
    spec.kernel = kernel;
    spec.operands[COSINES] = c;
    let added = reads.into_iter().chain(writes);
    Some(added.fold(spec, |spec, (binding, (dtype, access))| {
        spec.bind(binding, dtype, access)
    }))
}

/// The specialization for caches that have room for the newest row.
pub(crate) fn in_place(copying: &Specialization) -> Option<Specialization> {
    let [.., kernel] = KERNELS.iter().find(|[_, from, _]| copying.is_of(from))?;
    let mut spec = copying.clone();
    let own = spec.kernel.bindings.len();
    spec.kernel = kernel;
    spec.added.retain(|binding| !binding.writes());
    spec.operands.truncate(own + spec.added.len());
    Some(spec)
}

/// Whether the attention writes what it reads to new caches, so that nothing is read twice. Stores between loads leave fewer of them in
/// flight: with one row a workgroup, which leaves multiprocessors idle, and with cooperative matrices, further workgroups copy the caches.
fn keeps(spec: &Specialization) -> bool {
    spec.binds("w") && spec.is_of(&ROPE_FLASH_DECODE) && block(spec).rows > 1
}

/// Workgroups behind those of the rows that write the caches, as write_caches.wgsl divides them.
pub(crate) fn writers(spec: &Specialization, params: &Params) -> u64 {
    if keeps(spec) {
        return 0;
    }
    let [threads, matrices, keys] = [spec.workgroup, params.matrices, params.keys].map(u64::from);
    let quads = [params.head_dim / 4, params.v_dim / 4].map(u64::from);
    let old = u64::from(spec.binds("w")) * matrices * (keys - 1);
    let copying = quads.map(|quads| old.div_ceil(u64::from(COPIED) * (threads / quads)));
    let newest = matrices * quads.iter().sum::<u64>();
    newest.div_ceil(threads) + copying.iter().sum::<u64>()
}

/// How queries and newest keys are rotated, and who writes the caches.
pub(super) fn rope_slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    four_slots(spec, text, &[("k", "y"), ("v", "z")]);
    score_slots(spec, text);
    let rounded = spec.info(0).rounded("v", "p.zero");
    text.line(format!(
        "fn rounded(v: vec4<f32>) -> vec4<f32> {{ return {rounded}; }}"
    ));
    for n in ["q", "u"] {
        let rotated = rotated(spec, spec.variant, &format!("{n}_rotated"), n);
        let cosines = [("c_get", "mask_get"), ("c_get4", "mask_get4")];
        text.line(renamed(&rotated, &cosines));
    }
    text.line("fn eps() -> f32 { return bitcast<f32>(p.u_strides.w); }");
    cache_slots(spec, text);
    text.part(wgsl!("kernel/attention/newest.wgsl"));
    Ok(())
}

/// Who writes the caches, and how: `k` and `v` are read, `w` and `z` written.
fn cache_slots(spec: &Specialization, text: &mut Text) {
    const COPY: &str = wgsl!("kernel/attention/copy_rows.wgsl");
    text.line(format!("const KEEPS = {};", keeps(spec)));
    if keeps(spec) {
        text.line("fn write_caches(group: u32, thread: u32) {}");
        return;
    }
    text.constants(&[("COPIED", COPIED)]);
    text.part(wgsl!("kernel/attention/write_caches.wgsl"));
    for (copy, from, to) in [("copy_keys", "k", "w"), ("copy_values", "v", "z")] {
        if spec.binds("w") {
            let names = [
                ("copy_rows", copy),
                ("old_buffer", from),
                ("new_buffer", to),
            ];
            text.line(renamed(function(COPY, "copy_rows"), &names));
        } else {
            let pack = format!("{}_pack", spec.info(0).name);
            text.line(format!(
                "fn {copy}(group: u32, thread: u32, rows: Rows) {{}}"
            ));
            text.line(format!(
                "fn {to}_quad_put(q: u32, four: vec4<f32>) {{ {from}[q] = {pack}(four); }}"
            ));
        }
    }
}

/// The specializations that follow from those of `flash_decode_sub`.
pub(crate) fn catalogue(flash: &[Specialization]) -> Vec<Specialization> {
    let ropes = kv_cache::catalogue();
    let of = |flash| ropes.iter().filter_map(move |rope| spec(rope, flash));
    let all: Vec<_> = flash.iter().flat_map(of).collect();
    let in_place = all
        .iter()
        .filter(|spec| spec.is_of(&ROPE_FLASH_DECODE_IN_PLACE));
    let normed = in_place.filter_map(with_norms).collect();
    [all, normed].concat()
}
