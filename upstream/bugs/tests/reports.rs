//! Each report contains its program and what the program prints.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::process::Command;

#[test]
fn reports_contain_their_programs_and_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = Path::new(env!("CARGO_BIN_EXE_argsort_nan")).parent().unwrap();
    for file in read_dir(root.join("src/bin")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let report = read_to_string(root.join(name).with_extension("md")).unwrap();
        let code = read_to_string(&path).unwrap();
        assert!(report.contains(&format!("```rust\n{code}```")), "{name}.md does not contain its program");

        let run = Command::new(programs.join(name)).output().unwrap();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(report.contains(&format!("```text\n{printed}```")), "{name}.md does not contain this:\n{printed}");
    }
}
