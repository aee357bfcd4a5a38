//! Validates every file of candle-webgpu/wgsl/ on its own, and every specialisation that the backend can request. No GPU needed.

mod shared;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use candle_webgpu::kernel::catalogue;
use candle_webgpu::op::OPS;
use candle_webgpu::shader::{link, link_for, Access, Field, Specialization, Target, Traits};
use naga::{AddressSpace, StorageAccess};
use rayon::prelude::*;
use shared::ops;

/// Parses and validates; an error shows the line.
fn validate(text: &str) -> Result<naga::Module> {
    let show = |e: String| anyhow::anyhow!(e);
    let module = naga::front::wgsl::parse_str(text).map_err(|e| show(e.emit_to_string(text)))?;
    let all = naga::valid::Capabilities::all();
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all)
        .validate(&module)
        .map_err(|e| show(e.emit_to_string(text)))?;
    Ok(module)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn files_stand_alone() -> Result<()> {
    let mut folders = vec![root().join("candle-webgpu/wgsl")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "wgsl") {
                validate(&std::fs::read_to_string(&path)?)
                    .with_context(|| path.display().to_string())?;
                count += 1;
            }
        }
    }
    ensure!(count > 100, "only {count} files");
    Ok(())
}

#[test]
fn names_are_unique() -> Result<()> {
    let mut names = HashSet::new();
    for spec in catalogue() {
        ensure!(names.insert(spec.name()), "{} is listed twice", spec.name());
    }
    ensure!(names.len() > 500, "only {} specialisations", names.len());
    Ok(())
}

/// Every specialisation validates and agrees with its Kernel row. A sample of the suite takes only a covering set.
#[test]
fn specialisations_validate() -> Result<()> {
    let specs = match std::env::var_os("CANDLE_WEBGPU_TEST_EVERY") {
        Some(_) => covering(),
        None => catalogue(),
    };
    let failed = specs.par_iter().filter_map(|spec| {
        let error = check(spec).err()?;
        Some(format!("{}: {error:#}", spec.name()))
    });
    let wrong: Vec<_> = failed.collect();
    ensure!(
        wrong.is_empty(),
        "{} wrong: {}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
    Ok(())
}

fn check(spec: &Specialization) -> Result<()> {
    let module = validate(&link(spec, Target::Naga)?)?;
    ensure!(
        !module.overrides.is_empty(),
        "no override: wgpu would ignore the options that turn its checks off"
    );
    let known: HashSet<&str> = module
        .overrides
        .iter()
        .filter_map(|(_, o)| o.name.as_deref())
        .collect();
    ensure!(known.contains("WORKGROUP"), "no override WORKGROUP");
    for (name, _) in &spec.overrides {
        ensure!(known.contains(name), "no override {name}");
    }
    ensure!(
        module.entry_points.len() == 1 && module.entry_points[0].name == "main",
        "its entry point is not main"
    );
    builtins(&module)?;
    bindings(spec, &module)?;
    params(spec, &module)?;
    shared(spec, module)
}

/// Subgroup builtins must be arguments of `main` itself: naga's HLSL writer does not find them in a struct.
fn builtins(module: &naga::Module) -> Result<()> {
    use naga::BuiltIn::{NumSubgroups, SubgroupId, SubgroupInvocationId, SubgroupSize};
    let of_subgroups = [NumSubgroups, SubgroupId, SubgroupInvocationId, SubgroupSize];
    for argument in &module.entry_points[0].function.arguments {
        let naga::TypeInner::Struct { members, .. } = &module.types[argument.ty].inner else {
            continue;
        };
        for member in members {
            if let Some(naga::Binding::BuiltIn(builtin)) = &member.binding {
                ensure!(
                    !of_subgroups.contains(builtin),
                    "{builtin:?} is a member of a struct"
                );
            }
        }
    }
    Ok(())
}

/// A field of parameters that is not a struct: its name, offset and size.
type Leaf = (String, usize, usize);

fn wgsl_leaves(module: &naga::Module, ty: naga::Handle<naga::Type>) -> Result<Vec<Leaf>> {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx())?;
    let mut leaves = Vec::new();
    let mut left = vec![(String::new(), 0, ty)];
    while let Some((name, at, ty)) = left.pop() {
        match &module.types[ty].inner {
            naga::TypeInner::Struct { members, .. } => left.extend(members.iter().map(|m| {
                let name = m.name.clone().unwrap_or_default();
                (name, at + m.offset as usize, m.ty)
            })),
            _ => leaves.push((name, at, layouter[ty].size as usize)),
        }
    }
    Ok(leaves)
}

fn rust_leaves(fields: &[Field]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut left: Vec<_> = fields.iter().map(|f| (0, f)).collect();
    while let Some((at, f)) = left.pop() {
        let at = at + f.offset;
        match f.fields {
            [] => leaves.push((f.name.to_string(), at, f.size)),
            fields => left.extend(fields.iter().map(|f| (at, f))),
        }
    }
    leaves
}

/// The parameters of a kernel have the same layout in Rust and in WGSL. What is padding on either side is not compared.
fn params(spec: &Specialization, module: &naga::Module) -> Result<()> {
    let mut all = module.global_variables.iter();
    let p = all.find(|(_, v)| v.space == AddressSpace::Uniform);
    let (_, p) = p.context("no parameters")?;
    let mut wgsl = wgsl_leaves(module, p.ty)?;
    let mut rust = rust_leaves(spec.kernel.params.fields);
    let both = wgsl.iter().chain(&rust);
    let is_pad = |f: &&Leaf| f.0.starts_with("pad") && f.0 != "padding";
    let pads: Vec<Leaf> = both.filter(is_pad).cloned().collect();
    for leaves in [&mut wgsl, &mut rust] {
        leaves.retain(|(_, at, size)| !pads.iter().any(|p| p.1 <= *at && at + size <= p.1 + p.2));
        leaves.sort_by_key(|f| f.1);
    }
    ensure!(wgsl == rust, "parameters {wgsl:?}, in Rust {rust:?}");
    Ok(())
}

/// The bindings are those of the Kernel row, and the parameters take at most 256 bytes.
fn bindings(spec: &Specialization, module: &naga::Module) -> Result<()> {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx())?;
    let mut storage = BTreeMap::new();
    for (_, var) in module.global_variables.iter() {
        match var.space {
            AddressSpace::Uniform => {
                let size = layouter[var.ty].size;
                let at = var.binding.as_ref().map(|b| (b.group, b.binding));
                ensure!(at == Some((0, 0)), "the parameters are bound at {at:?}");
                ensure!(size <= 256, "the parameters take {size} bytes");
            }
            AddressSpace::Storage { access } => {
                let binding = var.binding.as_ref().context("a buffer without a binding")?;
                ensure!(binding.group == 0, "group {}", binding.group);
                let name = var.name.clone().unwrap_or_default();
                storage.insert(
                    binding.binding,
                    (name, access.contains(StorageAccess::STORE)),
                );
            }
            _ => {}
        }
    }
    let rows = spec.bindings();
    let expected: BTreeMap<u32, (String, bool)> = (1..)
        .zip(rows.map(|b| (b.name.to_string(), b.write)))
        .collect();
    ensure!(
        storage == expected,
        "bindings {storage:?}, the row says {expected:?}"
    );
    // Every adapter has 8; rules check for more before they record the kernels that need them.
    let most = match spec.kernel.name {
        _ if spec.binds("bias_y") => 11,
        "gemm_coop" if spec.binds("z") => 9,
        "rope_kv_cache" => 10,
        name if name.starts_with("rope_flash_decode") => 10,
        _ => 8,
    };
    ensure!(storage.len() <= most, "{} storage buffers", storage.len());
    ensure!(
        spec.operands.len() == storage.len(),
        "{} operands",
        spec.operands.len()
    );
    Ok(())
}

/// The row's bytes of workgroup memory are an upper bound of what the shader uses with its overrides.
fn shared(spec: &Specialization, module: naga::Module) -> Result<()> {
    let all = naga::valid::Capabilities::all();
    let info =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), all).validate(&module)?;
    let mut values: naga::back::PipelineConstants = spec
        .overrides
        .iter()
        .map(|(name, value)| (name.to_string(), f64::from(*value)))
        .collect();
    values.insert("WORKGROUP".into(), f64::from(spec.workgroup));
    let (module, _) =
        naga::back::pipeline_constants::process_overrides(&module, &info, None, &values)?;
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx())?;
    let taken: u32 = module
        .global_variables
        .iter()
        .filter(|(_, v)| v.space == AddressSpace::WorkGroup)
        .map(|(_, v)| layouter[v.ty].size.next_multiple_of(16))
        .sum();
    let row = (spec.kernel.shared)(spec);
    // The row need not count the padding of each variable.
    let padding = 15 * module.global_variables.len() as u32;
    ensure!(
        row + padding >= taken,
        "takes {taken} bytes of workgroup memory, the row says {row}"
    );
    let size = module.entry_points[0].workgroup_size;
    let invocations: u32 = size.iter().product();
    ensure!(
        invocations == spec.workgroup,
        "{size:?} invocations, the row says {}",
        spec.workgroup
    );
    Ok(())
}

/// The rows of OPS have Candle's KERNEL strings, by which the trait methods find them, and the dtypes that the tests use.
#[test]
fn ops_have_candles_names() -> Result<()> {
    let rows = OPS
        .iter()
        .map(|op| (op.name, op.dtypes.iter().map(|d| d.name()).collect()));
    let tested = ops::OPS
        .iter()
        .map(|op| (op.kernel, op.dtypes.iter().map(|d| d.as_str()).collect()));
    let (rows, tested): (BTreeMap<_, BTreeSet<_>>, BTreeMap<_, _>) =
        (rows.collect(), tested.collect());
    ensure!(
        rows == tested,
        "OPS has {rows:?}, tests/shared/ops.rs {tested:?}"
    );
    Ok(())
}

fn hash(hash: u64, text: &str) -> u64 {
    // FNV-1a: short, and stable across releases.
    text.bytes().fold(hash, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// golden/index.txt has a hash of the texts of each kernel and op, so that every change of a shader shows in a diff.
/// `UPDATE_GOLDEN=1` writes the file.
#[test]
fn golden_index() -> Result<()> {
    let mut lines: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    let mut specs = catalogue();
    specs.sort_by_key(Specialization::name);
    for spec in specs {
        let group = match spec.op {
            "" => spec.kernel.name.to_string(),
            op => format!("{}.{op}", spec.kernel.name),
        };
        let line = lines.entry(group).or_insert((0, 0xcbf2_9ce4_8422_2325));
        let text = link(&spec, Target::Naga)? + &link(&spec, Target::Tint)?;
        *line = (line.0 + 1, hash(line.1, &text));
    }
    let text: String = lines
        .iter()
        .map(|(name, (count, hash))| format!("{name} {count} {hash:016x}\n"))
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/index.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return Ok(std::fs::write(path, text)?);
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (golden.lines().collect(), text.lines().collect());
    let changed: Vec<&&str> = new.symmetric_difference(&old).collect();
    ensure!(
        changed.is_empty(),
        "shaders changed: {changed:?}\nIf that was meant, run with UPDATE_GOLDEN=1 and look at the diff."
    );
    Ok(())
}

/// A set of specialisations that covers each kernel with each op, and each access of each operand.
fn covering() -> Vec<Specialization> {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    let mut ways: HashSet<(&str, usize, String, Access)> = HashSet::new();
    catalogue()
        .into_iter()
        .filter(|s| {
            let mut new = seen.insert((s.kernel.name, s.op));
            for (i, (elem, access)) in s.operands.iter().enumerate() {
                new |= ways.insert((s.kernel.name, i, elem.to_string(), *access));
            }
            new
        })
        .collect()
}

/// Counts the texts that change for adapters with these traits; they must validate.
fn differs(traits: Traits) -> Result<usize> {
    let mut differ = 0;
    for spec in covering() {
        let text = link_for(&spec, Target::Naga, traits)?;
        if text != link(&spec, Target::Naga)? {
            validate(&text).with_context(|| spec.name())?;
            differ += 1;
        }
    }
    Ok(differ)
}

#[test]
fn packing_f16() -> Result<()> {
    let differ = differs(Traits {
        packs: true,
        ..Traits::default()
    })?;
    ensure!(differ > 50, "only {differ} texts differ");
    Ok(())
}

#[test]
fn parameters_as_immediates() -> Result<()> {
    let differ = differs(Traits {
        immediates: true,
        ..Traits::default()
    })?;
    ensure!(differ == covering().len(), "only {differ} texts differ");
    Ok(())
}

/// The browser's compiler accepts the shaders, too: it is stricter than naga about barriers and subgroup operations.
#[test]
fn tint() -> Result<()> {
    if Command::new("tint").arg("--help").output().is_err() {
        println!("skipped: no tint on PATH");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let mut wrong = Vec::new();
    let mut specs = covering();
    specs.retain(|s| !s.is_native());
    for spec in &specs {
        let path = dir.path().join("shader.wgsl");
        std::fs::write(&path, link(spec, Target::Tint)?)?;
        let values: Vec<String> = [("WORKGROUP", spec.workgroup)]
            .iter()
            .chain(&spec.overrides)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let out = Command::new("tint")
            .args(["--format", "wgsl", "--overrides", &values.join(",")])
            .arg(&path)
            .output()?;
        if !out.status.success() {
            let message = String::from_utf8_lossy(&out.stderr);
            wrong.push(format!(
                "{}: {}",
                spec.name(),
                message.lines().take(4).collect::<Vec<_>>().join("\n")
            ));
        }
    }
    println!("{} shaders", specs.len());
    if !wrong.is_empty() {
        bail!(
            "{} of {} refused:\n{}",
            wrong.len(),
            specs.len(),
            wrong[..wrong.len().min(8)].join("\n")
        );
    }
    Ok(())
}
