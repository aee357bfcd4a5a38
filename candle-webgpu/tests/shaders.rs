//! Every file of wgsl/ as it stands, and every specialisation that the backend can ask for, through naga.
//! No GPU needed.

use std::collections::HashSet;
use std::path::Path;

use candle_webgpu::kernel::catalogue;
use candle_webgpu::link::{link, Target};

/// Parses and validates; the message shows the line.
fn validate(text: &str) -> Result<naga::Module, String> {
    let module =
        naga::front::wgsl::parse_str(text).map_err(|e| e.emit_to_string(text).to_string())?;
    let mut validator = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::all(),
    );
    validator
        .validate(&module)
        .map_err(|e| e.emit_to_string(text).to_string())?;
    Ok(module)
}

#[test]
fn files_stand_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("wgsl");
    let mut count = 0;
    for folder in ["kernel", "op", "dtype", "lib"] {
        let Ok(files) = std::fs::read_dir(root.join(folder)) else {
            continue;
        };
        for file in files {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            validate(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            count += 1;
        }
    }
    assert!(count > 15, "only {count} files");
}

#[test]
fn specialisations_validate() {
    let mut names = HashSet::new();
    for spec in catalogue() {
        if !names.insert(spec.name()) {
            continue;
        }
        let text = link(&spec, Target::Naga).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
        let module = validate(&text).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
        assert!(
            !module.overrides.is_empty(),
            "{spec:?} has no override: wgpu would ignore the unchecked options"
        );
    }
    assert!(names.len() > 500, "only {} specialisations", names.len());
}
