//! A suite as one tree: its settings, and every test that `tests` refers to, in any file.
//!
//! `tests` is a list, a file, a directory of cases, or `file://` references with patterns. `eval` reads the tree, `bundle` rewrites
//! it; everything in it knows its position.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::agentv4::AGENTV_4;
use super::dialect::{self, Dialect, Part};
use super::files::Format;
use super::pattern;
use super::reader::Reader;
use crate::config::{Key, Node, NodeValue, Problems, Source, Span, normalized, parse_line};

const FILE: &str = "file://";

/// After this many errors the rest is not read; a file of 100,000 lines may have one on each.
const MOST_ERRORS: usize = 20;

/// A suite with its tests.
#[derive(Debug)]
pub struct Tree {
    /// Its dialect.
    pub dialect: &'static Dialect,
    /// The suite's own mapping, without `tests`, which are in `tests`.
    pub root: Node,
    /// The position of `tests`.
    pub tests_at: Span,
    /// The tests, in AgentV's order.
    pub tests: Vec<Test>,
    /// Whether too many errors stopped the reading.
    pub is_cut: bool,
}

/// A test.
#[derive(Debug)]
pub struct Test {
    /// As written. AgentV skips a test that is not a mapping, which is already recorded.
    pub node: Node,
    /// The directory next to its file that AgentV uses as its workspace.
    pub workspace: Option<PathBuf>,
}

impl Tree {
    /// Reads the rest of a suite, whose own file was read.
    pub fn read(path: &Path, format: Format, source: Source, reader: &mut impl Reader) -> Option<Self> {
        match format {
            Format::Yaml => Self::of_yaml(source, reader),
            Format::Jsonl => Some(Self::of_lines(path, &Arc::new(source), reader)),
        }
    }

    fn of_yaml(source: Source, reader: &mut impl Reader) -> Option<Self> {
        let mut root = reader.parse_as_written(source)?;
        if is_targets_file(&root) {
            let at = Span::of_line(&root.span.source, root.span.line);
            let hint = "pass the suite, and this file with `--targets`: `run-evals eval SUITE --targets FILE`; \
                        `run-evals doctor` checks a targets file";
            reader.problems().error_with_hint(&at, "this is a targets file, not a suite", hint);
            return None;
        }
        reader.interpolate(&mut root);
        let dialect = dialect::of(&root, reader.problems())?;
        let Some(tests) = take_tests(&mut root, dialect, reader) else {
            let tests_at = Span::of_line(&root.span.source, root.span.line);
            let hint =
                "`tests` is a list of tests, or the path of a `.yaml` or `.jsonl` file or of a directory";
            reader.problems().error_with_hint(&tests_at, "the suite has no `tests`", hint);
            return Some(Self { dialect, root, tests_at, tests: Vec::new(), is_cut: false });
        };
        let tests_at = tests.span.clone();
        let Tests { found: tests, is_cut, .. } = Tests::new(dialect, reader).read(tests);
        Some(Self { dialect, root, tests_at, tests, is_cut })
    }

    /// A `.jsonl` suite, whose settings are in the YAML file next to it.
    fn of_lines(path: &Path, source: &Arc<Source>, reader: &mut impl Reader) -> Self {
        let start = Span { source: Arc::clone(source), line: 1, column: 1, width: 1 };
        let settings = Some(path.with_extension("yaml")).filter(|path| path.is_file());
        let root = settings
            .and_then(|path| reader.read_yaml(&path, &start))
            .filter(|root| root.fields("the settings of a `.jsonl` suite", reader.problems()).is_some());
        let root = root.unwrap_or(Node { value: NodeValue::Map(Vec::new()), span: start.clone() });
        let dialect = &AGENTV_4;
        let mut tests = Tests::new(dialect, reader);
        tests.lines(source);
        let Tests { found: tests, is_cut, .. } = tests;
        Self { dialect, root, tests_at: start, tests, is_cut }
    }
}

/// Records that there are too many errors to continue, if so.
pub(super) fn stop_at_too_many_errors(at: &Span, problems: &mut Problems) -> bool {
    let count = problems.error_count();
    if count < MOST_ERRORS {
        return false;
    }
    problems.error(at, format!("{count} errors: further tests are not read"));
    true
}

/// Whether a file lists targets instead of tests: each has a provider, or the name of another target.
fn is_targets_file(root: &Node) -> bool {
    let has =
        |node: &Node, name: &str| node.entries().unwrap_or_default().iter().any(|(key, _)| key.text == name);
    if AGENTV_4.suite.names(Part::Tests).any(|name| has(root, name)) {
        return false;
    }
    let targets = root.entries().unwrap_or_default().iter().find(|(key, _)| key.text == "targets");
    targets
        .and_then(|(_, list)| list.items())
        .is_some_and(|list| list.iter().any(|target| has(target, "provider") || has(target, "use_target")))
}

/// Takes the value of `tests`, under any of its names; the key then has its current name and no value.
fn take_tests(root: &mut Node, dialect: &Dialect, reader: &mut impl Reader) -> Option<Node> {
    let NodeValue::Map(entries) = &mut root.value else { return None };
    let current = dialect.suite.names(Part::Tests).next()?;
    let mut found = None;
    for name in dialect.suite.names(Part::Tests) {
        let has = |(key, value): &(Key, Node)| key.text == name && !value.is_null();
        let Some(at) = entries.iter().position(has) else { continue };
        let span = entries[at].0.span.clone();
        if found.is_some() {
            let message = format!("`{name}` is ignored: the suite already has tests");
            reader.remark(&span, message, None);
        } else if name != current {
            reader.remark(&span, format!("`{name}` is the old name of `{current}`"), None);
        }
        found = found.or(Some(at));
    }
    let found = found?;
    let (key, value) = &mut entries[found];
    current.clone_into(&mut key.text);
    let nothing = Node { value: NodeValue::Null, span: value.span.clone() };
    let tests = std::mem::replace(value, nothing);
    let mut index = 0..;
    entries
        .retain(|(key, _)| index.next() == Some(found) || dialect.suite.part(&key.text) != Some(Part::Tests));
    Some(tests)
}

/// Collects the tests.
struct Tests<'r, R> {
    dialect: &'static Dialect,
    reader: &'r mut R,
    found: Vec<Test>,
    is_cut: bool,
}

impl<'r, R: Reader> Tests<'r, R> {
    fn new(dialect: &'static Dialect, reader: &'r mut R) -> Self {
        Self { dialect, reader, found: Vec::new(), is_cut: false }
    }

    /// Reads the value of `tests`.
    fn read(mut self, tests: Node) -> Self {
        let kind = tests.kind();
        match tests.value {
            NodeValue::List(items) => items.into_iter().for_each(|item| self.item(item)),
            NodeValue::String(_) => self.text(&tests),
            _ => {
                let message = format!("`tests`: expected a list or a path, found {kind}");
                self.reader.problems().error(&tests.span, message);
            }
        }
        self
    }

    fn text(&mut self, tests: &Node) {
        let Some(text) = self.reader.choice(tests, "`tests`") else { return };
        let Some(path) = text.strip_prefix(FILE) else { return self.path(&text, &tests.span) };
        let message = "AgentV 4 reads `file://` only inside a list".to_owned();
        let hint = if pattern::is_pattern(path) {
            format!("write `tests: [\"{text}\"]`")
        } else {
            format!("write `tests: {path}`")
        };
        self.reader.remark(&tests.span, message, Some(hint));
        self.reference(path, &tests.span);
    }

    /// Reads the lines of a `.jsonl` file.
    fn lines(&mut self, source: &Arc<Source>) {
        for (number, line) in (1..).zip(source.text.split('\n')) {
            if self.is_cut {
                return;
            }
            match parse_line(source, number, line) {
                Ok(Some(mut node)) => {
                    self.reader.interpolate(&mut node);
                    self.push(node, None);
                }
                Ok(None) => {}
                Err((span, message)) => {
                    let hint = "a `.jsonl` file has one JSON object per line";
                    self.reader.problems().error_with_hint(&span, message, hint);
                    self.is_cut = stop_at_too_many_errors(&span, self.reader.problems());
                }
            }
        }
    }

    fn push(&mut self, node: Node, workspace: Option<PathBuf>) {
        if self.is_cut {
            return;
        }
        if node.entries().is_none() {
            let message = format!("test: expected a mapping, found {}", node.kind());
            self.reader.skipped(&node.span, message, None);
            self.is_cut = stop_at_too_many_errors(&node.span, self.reader.problems());
        }
        self.found.push(Test { node, workspace });
    }

    fn item(&mut self, item: Node) {
        if item.as_str().is_none() {
            return self.push(item, None);
        }
        let Some(text) = self.reader.choice(&item, "`tests`") else { return };
        if let Some(path) = text.strip_prefix(FILE) {
            return self.reference(path, &item.span);
        }
        let message = "a string is not a test, so AgentV skips it".to_owned();
        self.reader.skipped(&item.span, message, Some("a reference to a file begins with `file://`"));
        self.found.push(Test { node: item, workspace: None });
    }

    /// A `file://` reference without its prefix: a file or a pattern.
    fn reference(&mut self, path: &str, at: &Span) {
        if !pattern::is_pattern(path) {
            return self.path(path, at);
        }
        match pattern::expand(path, &self.reader.lookup().dir) {
            Ok(files) if files.is_empty() => {
                let lookup = self.reader.lookup();
                let hint =
                    format!("it is relative to the suite's directory, `{}`", lookup.shown_dir(&lookup.dir));
                self.reader.problems().error_with_hint(at, format!("no file matches `{path}`"), hint);
            }
            Ok(files) => files.iter().for_each(|file| self.file(file, at)),
            Err(error) => {
                let message = format!("cannot use the pattern `{path}`: {error}");
                self.reader.problems().error(at, message);
            }
        }
    }

    /// A path relative to the suite's directory.
    fn path(&mut self, text: &str, at: &Span) {
        let path = normalized(&self.reader.lookup().dir.join(text));
        if path.is_dir() {
            self.directory(&path, at);
        } else if pattern::is_pattern(text) && !path.exists() {
            self.reader.problems().error_with_hint(
                at,
                format!("`tests`: a pattern must be in a list and start with `file://`: `{text}`"),
                format!("write `tests: [\"file://{}\"]`", text.trim_start_matches("./")),
            );
        } else {
            self.file(&path, at);
        }
    }

    fn file(&mut self, path: &Path, at: &Span) {
        let format = Format::of(path);
        if format.is_none() && path.exists() {
            let name = self.reader.lookup().shown(path);
            let message = format!("unknown format of a test file: `{}`", name.display());
            let hint = "a test file ends in `.yaml`, `.yml` or `.jsonl`";
            return self.reader.problems().error_with_hint(at, message, hint);
        }
        if let Err(error) = path.metadata() {
            let message = format!("cannot read `{}`: {error}", self.reader.lookup().shown(path).display());
            let hint = "paths of tests begin at the suite's directory";
            return self.reader.problems().error_with_hint(at, message, hint);
        }
        let Some(source) = self.reader.read(path, at) else { return };
        if source.text.trim().is_empty() {
            return self.reader.remark(at, format!("`{}` is empty", source.path.display()), None);
        }
        if format == Some(Format::Jsonl) {
            return self.lines(&Arc::new(source));
        }
        let Some(root) = self.reader.parse(source) else { return };
        let kind = root.kind();
        let NodeValue::List(items) = root.value else {
            let message = format!("a test file is a list of tests, found {kind}");
            let hint = "put `- ` before each test, without a `tests:` around them";
            return self.reader.problems().error_with_hint(&root.span, message, hint);
        };
        for item in items {
            self.push(item, None);
        }
    }

    /// Every subdirectory with a `case.yaml` is a test, ordered by name.
    fn directory(&mut self, dir: &Path, at: &Span) {
        let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", self.reader.lookup().shown(dir).display());
                return self.reader.problems().error(at, message);
            }
        };
        entries.retain(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let dir = entry.path();
            let case =
                ["case.yaml", "case.yml"].map(|name| dir.join(name)).into_iter().find(|path| path.is_file());
            let Some(case) = case else {
                let name = self.reader.lookup().shown(&dir);
                let message = format!("`{}` has no `case.yaml`: it is not a test", name.display());
                self.reader.remark(at, message, None);
                continue;
            };
            let Some(mut node) = self.reader.read_yaml(&case, at) else { continue };
            self.name_after(&entry.file_name().to_string_lossy(), &mut node);
            self.push(node, Some(dir.join("workspace")).filter(|dir| dir.is_dir()));
        }
    }

    /// A case without an id is named after its directory.
    fn name_after(&self, directory: &str, case: &mut Node) {
        let span = case.span.clone();
        let Some(name) = self.dialect.test.names(Part::Id).next() else { return };
        let NodeValue::Map(entries) = &mut case.value else { return };
        let id = Node { value: NodeValue::String(directory.to_owned()), span: span.clone() };
        match entries.iter_mut().find(|(key, _)| key.text == name) {
            Some((_, value)) if value.is_null() => *value = id,
            Some(_) => {}
            None => entries.push((Key { text: name.to_owned(), span }, id)),
        }
    }
}
