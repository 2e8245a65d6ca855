//! `targets.yaml`: the models and runner repositories that commands name.
//!
//! `keys` (with `auth_keys`) is the table of keys, each with a `shape`. `entry` reads one target through `settings`, which takes legal keys and
//! values from the table, each of a type in `typed`: `runner` (with `endpoint` and `auth`) for what is called from here, `remote` for a
//! repository on GitHub. All shapes are checked at load; `resolve` then follows `use_target` and applies the environment to
//! the one target that is used. `schema` is the table for editors. `inspect` reports the problems of every target (`command`: of
//! AgentV's view of it). `mask` keeps literal keys out of the messages, and `values` are the formats that a text may have.

mod auth;
mod auth_keys;
mod command;
mod endpoint;
mod entry;
mod inspect;
mod keys;
mod mask;
mod remote;
mod resolve;
mod runner;
mod schema;
mod settings;
mod shape;
#[cfg(test)]
mod tests;
mod typed;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use inspect::{Inspection, RunBy, Variable};
pub use schema::targets_schema;
pub use values::parse_duration;

use self::entry::TargetEntry;
use super::{Document, Env, Node, Problems, Roots, Source, each_reference};
use crate::model::{Failure, Limits, Target};
use crate::util::regular_file;
use crate::util::secrets::is_secret_name;

/// A targets file: the shapes of its entries are checked, its environment references are not resolved yet.
#[derive(Debug)]
pub struct TargetsFile {
    shown_as: PathBuf,
    dir: PathBuf,
    entries: Vec<TargetEntry>,
    /// The files that it names, if they are not on this disk.
    files: Option<BTreeMap<String, Vec<u8>>>,
}

impl TargetsFile {
    /// Where the file may be, in each directory; the first one wins.
    pub const PLACES: [&str; 4] =
        ["targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml"];

    /// The file that AgentV would use: the first one, from the nearest directory on. Files are not merged.
    pub fn discover(roots: &Roots) -> Option<PathBuf> {
        roots.iter().flat_map(|dir| Self::PLACES.map(|place| dir.join(place))).find(|path| path.is_file())
    }

    /// Reads a file and checks the shapes of all entries; returns the warnings rendered. Messages call it `shown_as`.
    pub fn load(path: &Path, shown_as: &Path) -> Result<(Self, Vec<String>), Failure> {
        // The user may name a pipe; a checkout may have a link to any file.
        let read = if path.is_file() {
            regular_file::read(path, regular_file::SETTINGS)
        } else {
            std::fs::read(path)
        };
        let bytes = read.map_err(|error| {
            Failure::config(format!("cannot read `{}`: {error}", shown_as.display()))
                .hint("`--targets FILE` names another file")
        })?;
        Self::parse(bytes, shown_as, path.parent().unwrap_or(Path::new("")))
    }

    /// The same for a file in memory; its paths are relative to `dir`.
    pub fn parse(bytes: Vec<u8>, shown_as: &Path, dir: &Path) -> Result<(Self, Vec<String>), Failure> {
        let source = Source::decode(shown_as, bytes)?;
        let mut document = Document::parse(source.path, source.text)?;
        mask::hide_literals(&mut document);
        let mut problems = Problems::default();
        let entries = read_entries(&document.root, dir, &mut problems);
        let warnings = problems.finish()?;
        let (shown_as, dir) = (shown_as.to_path_buf(), dir.to_path_buf());
        Ok((Self { shown_as, dir, entries, files: None }, warnings))
    }

    /// The certificate files that its targets name, as written.
    pub fn ca_files(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.get("ca_file")?.as_str()).map(str::trim)
    }

    /// The same file with the files that it names, so that none is read from disk.
    #[must_use]
    pub fn with_files(self, files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The environment variables that hold keys, of all targets.
    pub fn secret_names(&self) -> impl Iterator<Item = String> {
        let mut names = Vec::new();
        for entry in &self.entries {
            for (key, value) in entry.node.entries().unwrap_or_default() {
                if is_secret_name(&key.text) && key.text != "auth" {
                    each_reference(value, &mut |_, name| names.push(name.to_owned()));
                }
            }
        }
        names.into_iter()
    }

    /// The rate limits of a target, as far as they are known without its keys.
    pub fn limits(&self, name: &str, env: &Env) -> Option<Limits> {
        match self.resolve_without_keys(name, env)? {
            Target::Runner(target) => Some(target.limits),
            Target::Remote(_) => None,
        }
    }

    /// The file, as messages call it.
    pub fn shown_as(&self) -> &Path {
        &self.shown_as
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(self.shown_as.file_name().unwrap_or_default())
    }

    /// The project directory: the one that contains the file, or its `.agentv`.
    pub fn home(&self) -> &Path {
        if self.dir.ends_with(".agentv") { self.dir.parent().unwrap_or(&self.dir) } else { &self.dir }
    }

    /// The names of the targets, in the file's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }
}

fn read_entries(root: &Node, dir: &Path, problems: &mut Problems) -> Vec<TargetEntry> {
    const HINT: &str =
        "the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`";
    let Some(mut fields) = root.entries().and_then(|_| root.fields("targets file", problems)) else {
        problems.error_with_hint(&root.span, format!("expected a mapping, found {}", root.kind()), HINT);
        return Vec::new();
    };
    fields.get("$schema");
    let targets = fields.get("targets");
    for key in fields.unknown() {
        problems.error_with_hint(&key.span, format!("unknown key `{}`", key.text), HINT);
    }
    let Some(items) = targets.and_then(Node::items) else {
        let found = targets.map_or("no `targets`", Node::kind);
        problems.error_with_hint(
            &targets.unwrap_or(root).span,
            format!("expected a list of targets, found {found}"),
            HINT,
        );
        return Vec::new();
    };
    let mut entries: Vec<TargetEntry> = Vec::new();
    for (index, node) in items.iter().enumerate() {
        let Some(entry) = TargetEntry::check(index + 1, node, dir, problems) else { continue };
        if let Some(first) = entries.iter().find(|known| known.name == entry.name) {
            let line = first.name_span.line;
            let text = first.name_span.source.line(line).unwrap_or_default().trim();
            problems.error_with_hint(
                &entry.name_span,
                format!("duplicate target `{}`, first on line {line}", entry.name),
                format!("rename one of them; line {line} is `{text}`"),
            );
        }
        entries.push(entry);
    }
    entries
}
