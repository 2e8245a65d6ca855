//! What every part of the compiler shares: where things are, what was found, what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Area, Files};
use crate::config::{Env, Node, Problems, Source, Span, interpolate, references};
use crate::model::Digest;
use crate::suite::{AGENTV_4, Allowance, Dialect, Lookup, Reader, ReaderState, Templates};
use crate::util::regular_file;
use crate::util::secrets::{SecretMatch, find_secret};

/// Where the suite and its repository are. All paths are absolute, links resolved.
#[derive(Debug)]
pub(super) struct Places {
    /// The repository.
    pub(super) root: PathBuf,
    /// The suite.
    pub(super) suite: PathBuf,
}

/// The compiler's state.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the suite")]
pub(super) struct Compiler<'a> {
    pub(super) env: &'a Env,
    pub(super) places: Places,
    /// AgentV is started in its working directory, which a few references are relative to.
    pub(super) lookup: Lookup,
    /// What the keys of the suite mean.
    pub(super) dialect: &'static Dialect,
    templates: Templates,
    pub(super) problems: Problems,
    pub(super) files: Files,
    /// The digests of the files that became part of another, by their path in the repository.
    pub(super) inlined: BTreeMap<String, Digest>,
    /// The variables that chose a file or a target, and what they chose.
    pub(super) chosen: BTreeMap<String, BTreeSet<String>>,
    /// The types of assertions that are not built in, and where each was seen first.
    pub(super) types: BTreeMap<String, Span>,
    /// The names of targets that the suite can reach, and where each was seen first.
    pub(super) asked: Vec<(String, Span)>,
    /// Whether the suite says which target it runs on.
    pub(super) names_target: bool,
    /// Targets that the suite makes of others: the name, and the name of the other.
    pub(super) synthetic: Vec<(String, Node)>,
    /// Scripts whose needs were looked at, with the directory that they are run in.
    pub(super) looked_at: BTreeSet<(PathBuf, PathBuf)>,
    /// How many lines of each script were reported.
    pub(super) reported: BTreeMap<PathBuf, usize>,
    /// Whether the suite is called after its file.
    pub(super) unnamed: bool,
    /// Whether tests work in a directory of their own, where commands of targets are run.
    pub(super) has_workspace: bool,
    /// Whether a command is looked at that is run in the directory of a test.
    pub(super) in_workspace: bool,
    /// The directories that need a link to the scripts, once a command in the directory of a test has one of them.
    pub(super) linked: Option<BTreeSet<String>>,
    /// The files that became part of another and have a secret in them, with the first.
    pub(super) suspects: Vec<(PathBuf, SecretMatch)>,
    /// How much text variables may still fill in.
    pub(super) text: Allowance,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(env: &'a Env, places: Places, lookup: Lookup, files: Files) -> Self {
        Self {
            env,
            places,
            lookup,
            dialect: &AGENTV_4,
            templates: Templates::new(),
            problems: Problems::default(),
            files,
            inlined: BTreeMap::new(),
            chosen: BTreeMap::new(),
            types: BTreeMap::new(),
            asked: Vec::new(),
            names_target: false,
            synthetic: Vec::new(),
            reported: BTreeMap::new(),
            looked_at: BTreeSet::new(),
            unnamed: false,
            has_workspace: false,
            in_workspace: false,
            linked: None,
            suspects: Vec::new(),
            text: Allowance::default(),
        }
    }

    /// Notes a warning, once for each file.
    pub(super) fn warn(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.warn_once(at, message.into(), Some(hint.into()));
    }

    /// The file that a text names, as AgentV looks for it. A missing file is noted.
    pub(super) fn found(&mut self, what: &str, text: &str, at: &Span) -> Option<PathBuf> {
        let found = self.lookup.find(text);
        if found.is_none() {
            self.lookup.not_found(what, text, at, &mut self.problems);
        }
        found
    }

    /// Takes a file along that is looked up in the search roots, and gives its place in the bundle.
    pub(super) fn take(&mut self, area: Area, what: &str, text: &str, at: &Span) -> Option<String> {
        let path = self.found(what, text, at)?;
        self.files.add(area, &path, at, &mut self.problems)
    }

    /// Notes a target that the suite can reach.
    pub(super) fn ask(&mut self, name: &str, at: &Span) {
        let name = name.trim();
        if !name.is_empty() && !self.asked.iter().any(|(known, _)| known == name) {
            self.asked.push((name.to_owned(), at.clone()));
        }
    }
}

impl Reader for Compiler<'_> {
    fn state(&mut self) -> ReaderState<'_> {
        ReaderState { lookup: &self.lookup, problems: &mut self.problems, templates: &mut self.templates }
    }

    fn read(&mut self, path: &Path, at: &Span) -> Option<Source> {
        let name = self.lookup.shown(path);
        let inside = path.canonicalize().is_ok_and(|real| real.starts_with(&self.places.root));
        let bytes = match regular_file::read(path, regular_file::CONTENT) {
            Ok(bytes) if inside => bytes,
            Ok(_) => {
                let hint =
                    "move it into the repository; `--root DIR` names another directory as the repository";
                let message = format!("outside the repository: `{}`", name.display());
                self.problems.error_with_hint(at, message, hint);
                return None;
            }
            Err(error) => {
                self.problems.error(at, format!("cannot read `{}`: {error}", name.display()));
                return None;
            }
        };
        if let Some(source) = self.files.relative(path) {
            self.inlined.insert(source, Digest::of(&bytes));
        }
        self.files.included.take(path);
        if let Some(found) = find_secret(path, &bytes) {
            self.suspects.push((path.to_owned(), found));
        }
        self.decode(path, bytes)
    }

    /// The bundle keeps the references.
    fn interpolate(&mut self, _: &mut Node) {}

    /// An error is noted if a variable is not set.
    fn choice(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = node.as_str()?;
        if !text.contains("${{") {
            return Some(text.to_owned());
        }
        let mut unset = Vec::new();
        let value = interpolate(text, self.env, |name| unset.push(name.to_owned()));
        if let Some(name) = unset.first() {
            self.problems.error_with_hint(
                &node.span,
                format!("{what} cannot be bundled: `{name}` chooses it, and is not set"),
                format!("set `{name}` for this command, or write the path itself"),
            );
            return None;
        }
        for reference in references(text) {
            let what = format!("{what}: {text}");
            self.chosen.entry(reference.name.to_owned()).or_default().insert(what);
        }
        Some(value)
    }

    /// Files outside the repository are refused where they are read.
    fn may_include(&self, _: &Path) -> bool {
        true
    }

    /// It travels, and AgentV skips it in the bundle too.
    fn skipped(&mut self, at: &Span, message: String, hint: Option<&str>) {
        self.problems.warn_once(at, message, hint.map(ToOwned::to_owned));
    }

    /// Warnings are about what does not travel.
    fn remark(&mut self, _: &Span, _: String, _: Option<String>) {}
}

/// The first place of a file.
pub(super) fn start_of(source: Source) -> Span {
    Span { source: Arc::new(source), line: 1, column: 1, width: 1 }
}
