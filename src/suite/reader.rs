//! What a command does differently when it reads a suite: `eval` runs the suite, `bundle` packs it.

use std::path::{Path, PathBuf};

use super::include::Templates;
use crate::config::{Document, Node, Problems, Roots, Source, Span, normalized, shown};

/// The command that reads a suite.
pub trait Reader {
    /// The state that all readers have.
    fn state(&mut self) -> ReaderState<'_>;

    /// Where references are looked up.
    fn lookup(&mut self) -> &Lookup {
        self.state().lookup
    }

    /// The problems so far.
    fn problems(&mut self) -> &mut Problems {
        self.state().problems
    }

    /// The included files that were read.
    fn templates(&mut self) -> &mut Templates {
        self.state().templates
    }

    /// Reads a file that becomes part of the tree; problems are recorded at the reference, or in the file.
    fn read(&mut self, path: &Path, at: &Span) -> Option<Source>;

    /// Resolves environment variables in a newly parsed tree, if the command needs their values.
    fn interpolate(&mut self, tree: &mut Node);

    /// A text that names a file, with its environment variables resolved. `what` describes the file in messages.
    fn choice(&mut self, node: &Node, what: &str) -> Option<String>;

    /// Whether a file may be included; `read` may still refuse it.
    fn may_include(&self, path: &Path) -> bool;

    /// Records a test that AgentV skips.
    fn skipped(&mut self, at: &Span, message: String, hint: Option<&str>);

    /// Records something valid that its author probably did not mean.
    fn remark(&mut self, at: &Span, message: String, hint: Option<String>);

    /// Reads a YAML file that becomes part of the tree.
    fn read_yaml(&mut self, path: &Path, at: &Span) -> Option<Node> {
        let source = self.read(path, at)?;
        self.parse(source)
    }

    /// The tree of a YAML file.
    fn parse(&mut self, source: Source) -> Option<Node> {
        let mut root = self.parse_as_written(source)?;
        self.interpolate(&mut root);
        Some(root)
    }

    /// As `parse`, with environment references left as they are.
    fn parse_as_written(&mut self, source: Source) -> Option<Node> {
        match Document::parse(source.path, source.text) {
            Ok(document) => Some(document.root),
            Err(invalid) => {
                self.problems().absorb(invalid);
                None
            }
        }
    }

    /// Decodes the bytes of a file; records an error at the first byte that is not UTF-8.
    fn decode(&mut self, path: &Path, bytes: Vec<u8>) -> Option<Source> {
        match Source::decode(self.lookup().shown(path), bytes) {
            Ok(source) => Some(source),
            Err(invalid) => {
                self.problems().absorb(invalid);
                None
            }
        }
    }
}

/// The state that all readers of a suite have.
pub struct ReaderState<'r> {
    /// Where references are looked up.
    pub lookup: &'r Lookup,
    /// The problems so far.
    pub problems: &'r mut Problems,
    /// The included files that were read.
    pub templates: &'r mut Templates,
}

/// Where the references of a suite are looked up.
#[derive(Debug)]
pub struct Lookup {
    /// The suite's directory, which `tests` is relative to.
    pub dir: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
    /// The directories that are searched, nearest first.
    pub roots: Roots,
}

impl Lookup {
    /// Looks up the references of a suite in this directory.
    pub fn new(dir: PathBuf, cwd: PathBuf) -> Self {
        let roots = Roots::of_suite(&dir, &cwd);
        Self { dir, cwd, roots }
    }

    /// The path as the user would name it.
    pub fn shown(&self, path: &Path) -> PathBuf {
        shown(path, &self.cwd)
    }

    /// A directory, for messages.
    pub fn shown_dir(&self, dir: &Path) -> String {
        match self.shown(dir) {
            here if here.as_os_str().is_empty() => ".".to_owned(),
            dir => dir.display().to_string(),
        }
    }

    /// The search roots, for messages.
    pub fn listed(&self) -> String {
        self.roots.listed(&self.cwd)
    }

    /// The file or directory that a name refers to: first as an absolute path, then below the search roots, ignoring leading
    /// slashes.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.find_by(name, Path::exists)
    }

    /// The same, for a file.
    pub fn find_file(&self, name: &str) -> Option<PathBuf> {
        self.find_by(name, Path::is_file)
    }

    fn find_by(&self, name: &str, is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let below = name.trim_start_matches(['/', '\\']);
        let absolute = Some(PathBuf::from(name)).filter(|path| path.is_absolute());
        let roots = self.roots.iter().map(|dir| dir.join(below));
        let mut candidates = absolute.into_iter().chain(roots).map(|path| normalized(&path));
        candidates.find(|path| !below.is_empty() && is_it(path))
    }

    /// Records that a name was not found.
    pub fn not_found(&self, what: &str, name: &str, at: &Span, problems: &mut Problems) {
        // Test files may be in other directories than the suite, and authors expect paths relative to the file.
        let file = self.cwd.join(&at.source.path);
        let beside = file.parent().map(|dir| normalized(&dir.join(name))).filter(|path| path.is_file());
        let hint = match beside.as_ref().and_then(|path| path.strip_prefix(&self.dir).ok()) {
            Some(path) => format!("paths begin at the suite's directory: write `{}`; ", path.display()),
            None => String::new(),
        };
        let hint = format!("{hint}looked in {}", self.listed());
        problems.error_with_hint(at, format!("{what} not found: `{name}`"), hint);
    }
}
