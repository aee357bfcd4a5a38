//! upstream/series.toml: the commits of each series, and what they change in files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{bail, ensure, Context, Result};
use serde::{Deserialize, Deserializer};

/// One commit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub name: String,
    /// The text of the pull request, in upstream/. Its heading and its first paragraph are the commit's message.
    pub letter: String,
    /// Patches of the fork, such as `candle-core/device`.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Files of ours by their paths in Candle's repository; folders end with a slash. The longest match decides.
    #[serde(default)]
    pub files: Vec<String>,
    /// Items of files that earlier steps bring, by file; as `item` of [`Later`].
    #[serde(default)]
    pub items: BTreeMap<String, Vec<String>>,
    /// Lines of such files, as `line` of [`Later`].
    #[serde(default)]
    pub lines: BTreeMap<String, Vec<String>>,
    /// Commands that must pass at this commit, beside those for all.
    #[serde(default)]
    pub tests: Vec<String>,
}

impl Step {
    /// What its `items` and `lines` hide before.
    fn later(&self) -> impl Iterator<Item = Later> + '_ {
        let rule = |file: &String, line: &[String], item: &[String]| Later {
            file: file.clone(),
            step: self.name.clone(),
            line: line.to_vec(),
            item: item.to_vec(),
            ..Later::default()
        };
        let items = self.items.iter().map(move |(f, items)| rule(f, &[], items));
        items.chain(self.lines.iter().map(move |(f, lines)| rule(f, lines, &[])))
    }
}

/// Lines that a later step brings. `step` is its name, or "never".
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// All series if absent.
    pub series: Option<String>,
    /// A path, or a folder that ends with a slash.
    pub file: String,
    pub step: String,
    /// Each line that contains this, or one of these.
    #[serde(default, deserialize_with = "one_or_more")]
    pub line: Vec<String>,
    /// The item that contains this in its first line, with its comments and attributes; or several.
    #[serde(default, deserialize_with = "one_or_more")]
    pub item: Vec<String>,
    /// This piece of a line, or these, wherever it stands.
    #[serde(default, deserialize_with = "one_or_more")]
    pub text: Vec<String>,
    /// All lines from the one that contains the first text to the one that contains the second.
    pub lines: Option<[String; 2]>,
    /// What stands there before.
    #[serde(default)]
    pub stub: String,
}

/// A change of lines that the patches only insert, or of files that are not in the pinned crates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    pub series: Option<String>,
    pub step: String,
    /// A path, or a folder that ends with a slash.
    pub file: String,
    /// A regular expression, in multi-line mode.
    pub find: String,
    /// May name groups: `${1}`.
    pub with: String,
    /// The file is in Candle's repository, but not in its published crates.
    #[serde(default)]
    pub repository: bool,
}

/// A text, or a list of texts.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    Ok(match OneOrMore::deserialize(from)? {
        OneOrMore::One(one) => vec![one],
        OneOrMore::More(more) => more,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The most lines that a commit may add.
    limit: usize,
    /// Files of ours that stay out, with the reason: paths, or folders that end with a slash.
    out: Vec<(String, String)>,
    /// Folders of this repository that the series takes files from.
    sources: Vec<String>,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    hooks: Table,
    #[serde(rename = "in-tree")]
    in_tree: Table,
    later: Vec<Later>,
    edit: Vec<Edit>,
}

pub struct Series {
    pub name: String,
    pub limit: usize,
    pub steps: Vec<Step>,
    pub sources: Vec<String>,
    pub out: Vec<(String, String)>,
    pub later: Vec<Later>,
    edits: Vec<Edit>,
}

pub const NAMES: [&str; 2] = ["hooks", "in-tree"];
const NEVER: &str = "never";

impl Series {
    pub fn read(name: &str) -> Result<Self> {
        let path = folder()?.join("series.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let tables: Tables =
            toml::from_str(&text).with_context(|| format!("{} is not valid", path.display()))?;
        let table = match name {
            "hooks" => tables.hooks,
            "in-tree" => tables.in_tree,
            _ => bail!("there is no series {name}"),
        };
        ensure!(!table.step.is_empty(), "{name} has no steps");
        let ours = |series: &Option<String>| series.as_deref().is_none_or(|s| s == name);
        let own: Vec<Later> = table.step.iter().flat_map(Step::later).collect();
        let series = Self {
            name: name.to_owned(),
            limit: table.limit,
            steps: table.step,
            sources: table.sources,
            out: table.out,
            later: tables
                .later
                .into_iter()
                .filter(|l| ours(&l.series))
                .chain(own)
                .collect(),
            edits: tables
                .edit
                .into_iter()
                .filter(|e| ours(&e.series))
                .collect(),
        };
        for step in series
            .later
            .iter()
            .map(|l| &l.step)
            .chain(series.edits.iter().map(|e| &e.step))
        {
            ensure!(
                step == NEVER || series.index(step).is_some(),
                "{name} has no step {step}"
            );
        }
        Ok(series)
    }

    pub fn branch(&self) -> String {
        format!("webgpu-{}", self.name)
    }

    pub fn index(&self, step: &str) -> Option<usize> {
        self.steps.iter().position(|s| s.name == step)
    }

    /// The step that brings a patch.
    pub fn step_of_patch(&self, patch: &str) -> Option<usize> {
        self.steps
            .iter()
            .position(|step| step.patches.iter().any(|name| name == patch))
    }

    /// The step that brings a file of ours; `None` if it stays out. An error if nothing names the file.
    pub fn step_of_file(&self, path: &str) -> Result<Option<usize>> {
        let steps = self.steps.iter().enumerate();
        let named = steps.flat_map(|(i, step)| step.files.iter().map(move |file| (file, Some(i))));
        let out = self.out.iter().map(|(file, _)| (file, None));
        let matching = named.chain(out).filter(|(file, _)| covers(file, path));
        let (_, step) = matching
            .max_by_key(|(file, _)| file.len())
            .with_context(|| {
                format!(
                    "no step of {} brings {path}: name it in upstream/series.toml",
                    self.name
                )
            })?;
        Ok(step)
    }

    /// What a file does not contain at a step.
    pub fn hidden(&self, path: &str, step: usize) -> impl Iterator<Item = &Later> {
        let path = path.to_owned();
        self.later.iter().filter(move |later| {
            let brings = self.index(&later.step);
            covers(&later.file, &path) && brings.is_none_or(|brings| brings > step)
        })
    }

    pub fn edits(&self, step: usize) -> impl Iterator<Item = &Edit> {
        self.edits
            .iter()
            .filter(move |edit| self.index(&edit.step) == Some(step))
    }

    /// The paths and folders that edits name.
    pub fn edited(&self) -> Vec<&str> {
        self.edits.iter().map(|edit| edit.file.as_str()).collect()
    }

    /// How often series.toml hides more than a line or an item, or puts something else in its place.
    pub fn regions(&self) -> usize {
        self.later
            .iter()
            .filter(|l| l.lines.is_some() || !l.stub.is_empty())
            .count()
    }
}

/// Whether an entry is this path or a folder above it.
pub fn covers(entry: &str, path: &str) -> bool {
    entry == path || entry.ends_with('/') && path.starts_with(entry)
}

pub fn folder() -> Result<PathBuf> {
    Ok(crate::root()?.join("upstream"))
}
