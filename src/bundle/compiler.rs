//! What every part of the compiler shares: where things are, what was found, what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Area, Files};
use crate::config::{
    Document, Env, Node, Problems, Roots, Source, Span, interpolate, normalized, references, shown,
};
use crate::model::Digest;

/// Where the suite and its repository are. All paths are absolute, links resolved.
#[derive(Debug)]
pub(super) struct Places {
    /// The repository.
    pub(super) root: PathBuf,
    /// The suite's directory.
    pub(super) dir: PathBuf,
    /// The suite.
    pub(super) suite: PathBuf,
    /// Where AgentV is started, which a few references are relative to.
    pub(super) cwd: PathBuf,
}

/// The compiler's state.
pub(super) struct Compiler<'a> {
    pub(super) env: &'a Env,
    pub(super) places: Places,
    pub(super) roots: Roots,
    pub(super) problems: Problems,
    pub(super) files: Files,
    /// The digests of the files that became part of another, by their path in the repository.
    pub(super) inlined: BTreeMap<String, Digest>,
    /// The variables that chose a file or a target, and what they chose.
    pub(super) chosen: BTreeMap<String, BTreeSet<String>>,
    /// The types of assertions that are no built-in ones, and where each was seen first.
    pub(super) types: BTreeMap<String, Span>,
    /// The names of targets that the suite can reach, and where each was seen first.
    pub(super) asked: Vec<(String, Span)>,
    /// Whether the suite says which target it runs on.
    pub(super) names_target: bool,
    /// Targets that the suite makes of others: the name, and the name of the other.
    pub(super) synthetic: Vec<(String, Node)>,
    /// Scripts whose needs were looked at, with the directory that they are run in.
    pub(super) looked_at: BTreeSet<(PathBuf, PathBuf)>,
    /// Whether the suite is called after its file.
    pub(super) unnamed: bool,
    /// Whether tests work in a directory of their own, where commands of targets are run.
    pub(super) has_workspace: bool,
    /// The warnings that were told.
    told: BTreeSet<String>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(env: &'a Env, places: Places, files: Files) -> Self {
        let roots = Roots::new(&places.dir, &places.cwd);
        Self {
            env,
            roots,
            places,
            problems: Problems::default(),
            files,
            inlined: BTreeMap::new(),
            chosen: BTreeMap::new(),
            types: BTreeMap::new(),
            asked: Vec::new(),
            names_target: false,
            synthetic: Vec::new(),
            looked_at: BTreeSet::new(),
            unnamed: false,
            has_workspace: false,
            told: BTreeSet::new(),
        }
    }

    /// A warning, told once for each text.
    pub(super) fn warn(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        let message = message.into();
        if self.told.insert(format!("{}\0{message}", at.source.path.display())) {
            self.problems.warning(at, message, Some(hint.into()));
        }
    }

    /// A text that names a file or a target, with its variables filled in; an error is noted if one of them is not set.
    pub(super) fn chosen_text(&mut self, node: &Node, what: &str) -> Option<String> {
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

    /// The file that a text names, as AgentV looks for it: from the suite's directory up to the repository's, then where it
    /// was started. An absolute path is tried first, and leading slashes do not count.
    pub(super) fn find(&self, text: &str) -> Option<PathBuf> {
        let name = text.trim_start_matches(['/', '\\']);
        let absolute = Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        let below = self.roots.iter().map(|dir| dir.join(name));
        let mut candidates = absolute.into_iter().chain(below).map(|path| normalized(&path));
        candidates.find(|path| !name.is_empty() && path.exists())
    }

    /// The same; that there is no such file is noted.
    pub(super) fn found(&mut self, text: &str, at: &Span) -> Option<PathBuf> {
        let found = self.find(text);
        if found.is_none() {
            let hint = format!("looked in {}", self.roots.listed(&self.places.cwd));
            self.problems.error_with_hint(at, format!("no such file: `{text}`"), hint);
        }
        found
    }

    /// Takes a file along that is looked up in the search roots, and gives its place in the bundle.
    pub(super) fn take(&mut self, area: Area, text: &str, at: &Span) -> Option<String> {
        let path = self.found(text, at)?;
        self.files.add(area, &path, at, &mut self.problems)
    }

    /// Reads a YAML file that becomes part of the bundle's own.
    pub(super) fn read_yaml(&mut self, path: &Path, at: &Span) -> Option<Node> {
        let source = self.read_text(path, at)?;
        match Document::parse(source.path, source.text) {
            Ok(document) => Some(document.root),
            Err(invalid) => {
                self.problems.absorb(invalid);
                None
            }
        }
    }

    /// Reads a text file that becomes part of the bundle's own.
    pub(super) fn read_text(&mut self, path: &Path, at: &Span) -> Option<Source> {
        let name = shown(path, &self.places.cwd);
        let inside = path.canonicalize().is_ok_and(|real| real.starts_with(&self.places.root));
        let bytes = match std::fs::read(path) {
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
        match Source::decode(name, bytes) {
            Ok(source) => Some(source),
            Err(invalid) => {
                self.problems.absorb(invalid);
                None
            }
        }
    }

    /// Notes a target that the suite can reach.
    pub(super) fn ask(&mut self, name: &str, at: &Span) {
        let name = name.trim();
        if !name.is_empty() && !self.asked.iter().any(|(known, _)| known == name) {
            self.asked.push((name.to_owned(), at.clone()));
        }
    }
}

/// The first place of a file.
pub(super) fn start_of(source: Source) -> Span {
    Span { source: Arc::new(source), line: 1, column: 1, width: 1 }
}
