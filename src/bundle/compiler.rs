//! The shared state of the compiler: paths, findings and problems.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Area, Files};
use crate::config::{Env, Node, Problems, Source, Span, interpolate, references};
use crate::model::Digest;
use crate::suite::{AGENTV_4, Allowance, Dialect, Lookup, Reader, ReaderState, Templates};
use crate::util::regular_file;
use crate::util::secrets::{SecretMatch, find_secret};

/// The paths of the suite and its repository. All are absolute, with links resolved.
#[derive(Debug)]
pub(super) struct SuitePaths {
    /// The repository.
    pub(super) root: PathBuf,
    /// The suite.
    pub(super) suite: PathBuf,
}

/// The compiler's state.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the suite")]
pub(super) struct Compiler<'a> {
    pub(super) env: &'a Env,
    pub(super) places: SuitePaths,
    /// AgentV's working directory is the base of a few references.
    pub(super) lookup: Lookup,
    /// The meaning of the suite's keys.
    pub(super) dialect: &'static Dialect,
    templates: Templates,
    pub(super) problems: Problems,
    pub(super) files: Files,
    /// The digests of inlined files, by path in the repository.
    pub(super) inlined: BTreeMap<String, Digest>,
    /// The variables that chose a file or a target, and what they chose.
    pub(super) chosen: BTreeMap<String, BTreeSet<String>>,
    /// The custom assertion types, and the first position of each.
    pub(super) types: BTreeMap<String, Span>,
    /// The names of targets that the suite can use, and the first position of each.
    pub(super) asked: Vec<(String, Span)>,
    /// Whether the suite names its target.
    pub(super) names_target: bool,
    /// Targets that the suite derives from others: the name, and the name of the other.
    pub(super) synthetic: Vec<(String, Node)>,
    /// Scripts whose dependencies were checked, with their working directory.
    pub(super) looked_at: BTreeSet<(PathBuf, PathBuf)>,
    /// How many lines of each script were reported.
    pub(super) reported: BTreeMap<PathBuf, usize>,
    /// Whether the suite is named after its file.
    pub(super) unnamed: bool,
    /// Whether tests have their own directory, in which target commands run.
    pub(super) has_workspace: bool,
    /// Whether the current command runs in the directory of a test.
    pub(super) in_workspace: bool,
    /// The directories that need a link to the scripts, if a command in the directory of a test names one.
    pub(super) linked: Option<BTreeSet<String>>,
    /// The inlined files that contain a secret, with the first one.
    pub(super) suspects: Vec<(PathBuf, SecretMatch)>,
    /// How much more text variables may insert.
    pub(super) text: Allowance,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(env: &'a Env, places: SuitePaths, lookup: Lookup, files: Files) -> Self {
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

    /// Records a warning, once per file.
    pub(super) fn warn(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.warn_once(at, message.into(), Some(hint.into()));
    }

    /// The file that a text names, resolved as in AgentV. Records a missing file.
    pub(super) fn found(&mut self, what: &str, text: &str, at: &Span) -> Option<PathBuf> {
        let found = self.lookup.find(text);
        if found.is_none() {
            self.lookup.not_found(what, text, at, &mut self.problems);
        }
        found
    }

    /// Takes along a file from the search roots, and returns its path in the bundle.
    pub(super) fn take(&mut self, area: Area, what: &str, text: &str, at: &Span) -> Option<String> {
        let path = self.found(what, text, at)?;
        self.files.add(area, &path, at, &mut self.problems)
    }

    /// Records a target that the suite can use.
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
                    "move it into the repository; `--root DIR` sets another directory as the repository";
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

    /// References stay in the bundle.
    fn interpolate(&mut self, _: &mut Node) {}

    /// Records an error if a variable is unset.
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

    /// Files outside the repository are rejected when they are read.
    fn may_include(&self, _: &Path) -> bool {
        true
    }

    /// It is included, and AgentV skips it in the bundle, too.
    fn skipped(&mut self, at: &Span, message: String, hint: Option<&str>) {
        self.problems.warn_once(at, message, hint.map(ToOwned::to_owned));
    }

    /// Warnings are only about what is left behind.
    fn remark(&mut self, _: &Span, _: String, _: Option<String>) {}
}

/// The start of a file.
pub(super) fn start_of(source: Source) -> Span {
    Span { source: Arc::new(source), line: 1, column: 1, width: 1 }
}
