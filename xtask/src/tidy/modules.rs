//! The modules of a source folder. Resolves paths to the files that define their targets.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{Code, Kind};

/// A module's path below `crate`.
type Path = Vec<String>;

pub struct Modules<'a> {
    pub files: Vec<File<'a>>,
    /// Files by module; several where `#[path]` selects one.
    owners: BTreeMap<Path, Vec<usize>>,
    scopes: BTreeMap<Path, Scope<'a>>,
}

pub struct File<'a> {
    /// Relative to the source folder.
    pub name: &'a str,
    pub code: &'a Code,
    pub module: Path,
    /// Exempt: a test module, or a file named as one.
    pub test: bool,
}

#[derive(Default)]
struct Scope<'a> {
    items: BTreeSet<&'a str>,
    uses: BTreeMap<&'a str, &'a [String]>,
    globs: Vec<&'a [String]>,
}

/// The most re-exports that a path may pass through; more are a cycle.
const DEPTH: usize = 16;

impl<'a> Modules<'a> {
    /// `files` with their names relative to the source folder.
    pub fn new(files: impl IntoIterator<Item = (&'a str, &'a Code)>) -> Self {
        let mut files: Vec<File> = files
            .into_iter()
            .map(|(name, code)| File {
                name,
                code,
                module: module_of(name),
                test: named_for_tests(name),
            })
            .collect();
        rename_by_attributes(&mut files);
        mark_tests(&mut files);
        let mut owners: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
        let mut scopes: BTreeMap<Path, Scope> = BTreeMap::new();
        for (index, file) in files.iter().enumerate().filter(|(_, file)| !file.test) {
            let mut own = |module: &Path| {
                let all = owners.entry(module.clone()).or_default();
                if !all.contains(&index) {
                    all.push(index);
                }
            };
            own(&file.module);
            for (within, name) in &file.code.items {
                let module = join(&file.module, within);
                own(&module);
                scopes.entry(module).or_default().items.insert(name);
            }
            for mention in &file.code.mentions {
                let module = join(&file.module, &mention.within);
                own(&module);
                let scope = scopes.entry(module).or_default();
                match &mention.kind {
                    Kind::Path => {}
                    Kind::Use(name) => {
                        scope.uses.insert(name, &mention.segments);
                    }
                    Kind::Glob => scope.globs.push(&mention.segments),
                }
            }
        }
        Self {
            files,
            owners,
            scopes,
        }
    }

    /// The files that define the target of a path in module `at`; none for other crates.
    pub fn resolve(&self, at: &Path, segments: &[String]) -> &[usize] {
        let module = self.define(at.clone(), segments, DEPTH);
        let owners = module.and_then(|module| self.owners.get(&module));
        owners.map_or(&[], Vec::as_slice)
    }

    /// Whether a path begins with a child of the module.
    pub fn has_child(&self, module: &Path, segments: &[String]) -> bool {
        let child = join(module, &segments[..1]);
        self.owners.contains_key(&child)
    }

    fn define(&self, at: Path, segments: &[String], depth: usize) -> Option<Path> {
        let depth = depth.checked_sub(1)?;
        match segments.split_first()? {
            (first, rest) if first == "crate" => self.walk(Path::new(), rest, depth),
            (first, rest) if first == "self" => self.walk(at, rest, depth),
            (first, _) if first == "super" => self.walk(at, segments, depth),
            _ => self.find(at, segments, depth),
        }
    }

    /// Follows `rest` from a module. An unknown name comes from a macro and counts as defined in the module.
    fn walk(&self, mut module: Path, rest: &[String], depth: usize) -> Option<Path> {
        match rest.first() {
            None => Some(module),
            Some(first) if first == "super" => {
                module.pop()?;
                self.walk(module, &rest[1..], depth)
            }
            Some(_) => self.find(module.clone(), rest, depth).or(Some(module)),
        }
    }

    /// The module that defines the first name of `rest`, which is in scope in `module`.
    fn find(&self, module: Path, rest: &[String], depth: usize) -> Option<Path> {
        let (name, behind) = rest.split_first()?;
        let child = join(&module, std::slice::from_ref(name));
        if self.owners.contains_key(&child) {
            return self.walk(child, behind, depth);
        }
        let scope = self.scopes.get(&module)?;
        if scope.items.contains(name.as_str()) {
            return Some(module);
        }
        if let Some(target) = scope.uses.get(name.as_str()) {
            return self.define(module, &[target, behind].concat(), depth);
        }
        scope.globs.iter().find_map(|glob| {
            let other = self.define(module.clone(), glob, depth)?;
            (other != module).then(|| self.find(other, rest, depth.checked_sub(1)?))?
        })
    }
}

pub fn join(module: &[String], below: &[String]) -> Path {
    [module, below].concat()
}

fn module_of(name: &str) -> Path {
    let mut path: Path = name
        .trim_end_matches(".rs")
        .split('/')
        .map(String::from)
        .collect();
    let root = path.len() == 1 && (path[0] == "lib" || path[0] == "main");
    if root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

pub fn named_for_tests(name: &str) -> bool {
    let mut parts = name.trim_end_matches(".rs").split('/');
    parts.any(|part| part == "tests" || part == "testing")
}

/// `#[path = "wait_web.rs"] mod wait;` makes the module of wait_web.rs `wait`.
fn rename_by_attributes(files: &mut [File]) {
    let mut renamed: BTreeMap<String, Path> = BTreeMap::new();
    for file in files.iter() {
        let folder = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for module in &file.code.modules {
            for target in &module.files {
                let target = format!("{folder}/{target}");
                let path = join(&file.module, &module.path);
                renamed.insert(target.trim_start_matches('/').to_owned(), path);
            }
        }
    }
    for file in files {
        if let Some(path) = renamed.get(file.name) {
            file.module.clone_from(path);
        }
    }
}

/// A file is a test if a `#[cfg(test)] mod` declares it or an enclosing module.
fn mark_tests(files: &mut [File]) {
    let declared: Vec<Path> = files
        .iter()
        .flat_map(|file| {
            let tests = file.code.modules.iter().filter(|module| module.test);
            tests.map(|module| join(&file.module, &module.path))
        })
        .collect();
    for file in files {
        file.test |= declared.iter().any(|path| file.module.starts_with(path));
    }
}
