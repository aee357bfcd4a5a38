//! What the checks need from a Rust file: its paths, strings and calls, except in test modules.

use anyhow::{Context, Result};
use proc_macro2::{Span, TokenStream};

use super::reader::Reader;
use super::tokens;

#[derive(Default)]
pub struct Code {
    /// Paths that may name another module.
    pub mentions: Vec<Mention>,
    /// String literals with their lines, including those in macros.
    pub strings: Vec<(usize, String)>,
    /// Names of called methods (`.submit`) and macros (`option_env!`).
    pub calls: Vec<(usize, String)>,
    /// Names that the file defines, with their enclosing inline modules.
    pub items: Vec<(Vec<String>, String)>,
    pub modules: Vec<Module>,
    /// All identifiers, including those in test modules.
    pub idents: Vec<(usize, String)>,
}

pub struct Mention {
    pub line: usize,
    /// The enclosing inline modules.
    pub within: Vec<String>,
    pub segments: Vec<String>,
    pub kind: Kind,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Kind {
    Path,
    /// A `use` that brings this name into scope.
    Use(String),
    /// `use ..::*`
    Glob,
}

impl Mention {
    /// Whether it is a `use` or begins at a known module. Other paths begin with an imported name.
    pub fn is_anchored(&self) -> bool {
        let first = self.segments.first().map_or("", String::as_str);
        self.kind != Kind::Path || matches!(first, "crate" | "self" | "super")
    }
}

/// A `mod name;` with its code in another file, or a test module.
pub struct Module {
    pub path: Vec<String>,
    /// The files of its `#[path]` attributes, relative to the folder of the file.
    pub files: Vec<String>,
    pub test: bool,
}

impl Code {
    pub fn parse(text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(syn::Error::from).context("not Rust")?;
        let mut code = Code::default();
        tokens::idents(stream.clone(), &mut code.idents);
        let file: syn::File = syn::parse2(stream).context("not Rust")?;
        Ok(Reader::read(&file, code))
    }
}

pub fn line(span: Span) -> usize {
    span.start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Code {
        Code::parse(text).expect("Rust")
    }

    fn paths(code: &Code) -> Vec<String> {
        let paths = code.mentions.iter().map(|m| m.segments.join("::"));
        paths.collect()
    }

    #[test]
    fn macros_are_read() {
        let code = read(
            "/// `crate::doc::X`\nfn f() {\n    g!(crate::a::B, [x::Y::new(\"s\")], q.submit(1), option_env!(\"V\"));\n}\n\
             macro_rules! m { () => { /// doc\n $crate::c::D } }",
        );
        assert_eq!(paths(&code), ["crate::a::B", "x::Y::new", "crate::c::D"]);
        assert_eq!(code.mentions[0].line, 3);
        let strings: Vec<&str> = code.strings.iter().map(|(_, s)| s.as_str()).collect();
        assert_eq!(strings, ["s", "V"]);
        let calls: Vec<&str> = code.calls.iter().map(|(_, c)| c.as_str()).collect();
        assert!(calls.contains(&".submit") && calls.contains(&"option_env!"));
    }

    #[test]
    fn imports_are_flattened() {
        let code = read(
            "use crate::a::{self, b::*, C as D};\nuse ::std::env;\npub(in crate::z) fn f() {}",
        );
        assert_eq!(paths(&code), ["crate::a", "crate::a::b", "crate::a::C"]);
        let name = |name: &str| Kind::Use(name.to_owned());
        let kinds: Vec<Kind> = code.mentions.iter().map(|m| m.kind.clone()).collect();
        assert!(kinds == [name("a"), Kind::Glob, name("D")]);
    }

    #[test]
    fn tests_are_left_out() {
        let code = read(
            "#[cfg(test)]\nmod tests { use crate::a::B; }\n#[cfg(all(test, unix))]\nfn f() { crate::a::f() }\n\
             struct S;\nimpl S { #[cfg(test)] fn g() { crate::a::g() } }\n#[cfg(not(test))]\nuse crate::c::D;",
        );
        assert_eq!(paths(&code), ["crate::c::D"]);
        assert!(code.modules[0].test);
        assert!(code.idents.contains(&(2, "B".to_owned())));
    }

    #[test]
    fn path_attributes_name_files() {
        let code = read("#[cfg_attr(wasm, path = \"web.rs\")]\n#[path = \"native.rs\"]\nmod wait;");
        assert_eq!(code.modules[0].files, ["web.rs", "native.rs"]);
    }
}
