//! The files of a bundle and their sources, checked before anything is written.
//!
//! Each of the three areas is an image of the repository: `a/b.py` becomes `scripts/a/b.py`, so that relative paths between files
//! still work.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::ignore::{BY_GIT, Ignored, ignored};
use super::included::Included;
use super::verify::MADE;
use crate::config::{Problems, Span, normalized};
use crate::util::regular_file;
use crate::util::secrets::{FileName, Scanner, file_name, is_in_state, is_public_pem};

/// The areas of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Area {
    /// Templates of test workspaces.
    Workspace,
    /// Scripts of commands and their dependencies.
    Scripts,
    /// Data: inputs, expected outputs, prompts.
    Data,
}

impl Area {
    /// Its directory.
    pub(super) fn dir(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Scripts => "scripts",
            Self::Data => "data",
        }
    }
}

/// One entry of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BundleEntry {
    /// A copied file.
    Copy {
        /// Its path.
        from: PathBuf,
        /// Its path in the repository.
        source: String,
        /// Whether it is executable.
        executable: bool,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: String,
        /// Its path in the repository; `None` if it was created for the bundle.
        source: Option<String>,
    },
    /// A generated file.
    Made {
        /// Its content.
        content: Vec<u8>,
        /// Its source.
        source: Option<String>,
    },
}

/// Something that is left behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct LeftBehind {
    /// What it is.
    pub what: String,
    /// Why it is left behind, and how to restore it.
    pub why: String,
    /// The file that needs it, in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// The files of a bundle, by their path in it.
#[derive(Debug)]
pub(super) struct Files {
    /// The repository, links resolved.
    root: PathBuf,
    /// Never included: the bundle's own destination.
    exclude: Vec<PathBuf>,
    pub(super) entries: BTreeMap<String, BundleEntry>,
    pub(super) left: BTreeSet<LeftBehind>,
    known: HashSet<(Area, PathBuf)>,
    /// Included despite the rules.
    pub(super) included: Included,
    /// Files that git ignores; a directory includes its content.
    by_git: HashSet<PathBuf>,
    /// The files that were checked for secrets.
    checked: HashSet<PathBuf>,
}

impl Files {
    pub(super) fn new(
        root: PathBuf,
        exclude: Vec<PathBuf>,
        included: Included,
        by_git: Vec<PathBuf>,
    ) -> Self {
        Self {
            root,
            exclude,
            entries: BTreeMap::new(),
            left: BTreeSet::new(),
            known: HashSet::new(),
            included,
            by_git: by_git.into_iter().collect(),
            checked: HashSet::new(),
        }
    }

    /// The bundle path of a repository path; `None` if it is outside, or its name is not UTF-8.
    pub(super) fn place(&self, area: Area, path: &Path) -> Option<String> {
        let relative = self.relative(path)?;
        Some(if relative.is_empty() { area.dir().to_owned() } else { format!("{}/{relative}", area.dir()) })
    }

    /// A path relative to the repository.
    pub(super) fn relative(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.root).ok()?.to_str().map(ToOwned::to_owned)
    }

    /// Adds a file, a link or a whole directory; problems are recorded at `at`. Returns its bundle path.
    pub(super) fn add(
        &mut self,
        area: Area,
        path: &Path,
        at: &Span,
        problems: &mut Problems,
    ) -> Option<String> {
        let path = normalized(path);
        let place = self.placed(area, &path, at, problems)?;
        if !self.known.insert((area, path.clone())) {
            return Some(place);
        }
        // Rules for names also apply to the targets of links on the way.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let found = path.canonicalize().ok().or_else(|| Some(parent.as_ref()?.join(path.file_name()?)));
        let is_in_state = |path: &Path| path.strip_prefix(&self.root).is_ok_and(is_in_state);
        if is_in_state(&path) || found.as_deref().is_some_and(is_in_state) {
            let message =
                format!("a bundle never contains state of git or run-evals: `{}`", self.shown(&path));
            problems.error_with_hint(at, message, "copy the file to another directory");
            return None;
        }
        // Links on the way are followed once: a repository may itself be behind a link.
        if parent.is_some_and(|parent| !parent.starts_with(&self.root)) {
            self.outside(&path, at, problems);
            return None;
        }
        match fs::symlink_metadata(&path) {
            Ok(metadata) => self.add_known(area, &path, &place, &metadata, at, problems),
            Err(error) => {
                let what = if error.kind() == ErrorKind::NotFound { "no such file" } else { "cannot read" };
                problems.error(at, format!("{what}: `{}`", self.shown(&path)));
                return None;
            }
        }
        Some(place)
    }

    /// Keeps a directory that would otherwise be empty.
    pub(super) fn keep_directory(
        &mut self,
        area: Area,
        path: &Path,
        at: &Span,
        problems: &mut Problems,
    ) -> Option<String> {
        let path = normalized(path);
        let place = self.placed(area, &path, at, problems)?;
        let keep = format!("{place}/.keep");
        self.entries.entry(keep).or_insert(BundleEntry::Made { content: Vec::new(), source: None });
        Some(place)
    }

    /// Removes unnecessary placeholder files, and reports names that differ only by case, which some disks cannot
    /// distinguish.
    pub(super) fn finish(&mut self, at: &Span, problems: &mut Problems) {
        self.resolve_links();
        let paths: Vec<String> = self.entries.keys().cloned().collect();
        for (i, path) in paths.iter().enumerate() {
            let Some(dir) = path.strip_suffix(".keep") else { continue };
            let made = matches!(self.entries.get(path), Some(BundleEntry::Made { .. }));
            let shared = |other: Option<&String>| other.is_some_and(|other| other.starts_with(dir));
            let before = i > 0 && shared(paths.get(i - 1));
            if made && (before || shared(paths.get(i + 1))) {
                self.entries.remove(path);
            }
        }
        let mut spelled: BTreeMap<String, &str> = BTreeMap::new();
        let mut told = BTreeSet::new();
        for path in self.entries.keys() {
            for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
                let part = &path[..end];
                let first = *spelled.entry(part.to_lowercase()).or_insert(part);
                if first != part && told.insert((first, part)) {
                    problems.error_with_hint(
                        at,
                        format!(
                            "`{first}` and `{part}` differ only by case, which some disks do not distinguish"
                        ),
                        "rename one of them",
                    );
                }
            }
        }
    }

    /// Records something that is left behind.
    pub(super) fn leave(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left.insert(LeftBehind { what: what.into(), why: why.into(), file: None, line: None });
    }

    /// The same for a dependency of a line in a file.
    pub(super) fn leave_at(
        &mut self,
        what: impl Into<String>,
        why: impl Into<String>,
        file: String,
        line: u32,
    ) {
        let (file, line) = (Some(file), Some(line));
        self.left.insert(LeftBehind { what: what.into(), why: why.into(), file, line });
    }

    fn placed(&self, area: Area, path: &Path, at: &Span, problems: &mut Problems) -> Option<String> {
        let place = self.place(area, path);
        if place.is_none() && path.starts_with(&self.root) {
            problems.error(at, format!("the name of `{}` is not UTF-8", path.display()));
        } else if place.is_none() {
            self.outside(path, at, problems);
        }
        place
    }

    fn outside(&self, path: &Path, at: &Span, problems: &mut Problems) {
        let hint = "move it into the repository; `--root DIR` sets another directory as the repository";
        problems.error_with_hint(at, format!("outside the repository: `{}`", self.shown(path)), hint);
    }

    fn add_known(
        &mut self,
        area: Area,
        path: &Path,
        place: &str,
        metadata: &Metadata,
        at: &Span,
        problems: &mut Problems,
    ) {
        let Some(source) = self.relative(path) else { return };
        if metadata.is_symlink() {
            self.add_link(area, path, place, source, at, problems);
        } else if metadata.is_dir() {
            self.add_directory(area, path, at, problems);
        } else if metadata.is_file() {
            if let Err(error) = fs::File::open(path) {
                problems.error(at, format!("cannot read `{}`: {error}", self.shown(path)));
                return;
            }
            self.check_credentials(path, &source, at, problems);
            let executable = metadata.permissions().mode() & 0o100 != 0;
            self.entries
                .insert(place.to_owned(), BundleEntry::Copy { from: path.to_owned(), source, executable });
        } else {
            let message = format!("`{}` is neither a file nor a directory", self.shown(path));
            problems.error(at, message);
        }
    }

    fn add_directory(&mut self, area: Area, path: &Path, at: &Span, problems: &mut Problems) {
        let names = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => {
                problems.error(at, format!("cannot read `{}`: {error}", self.shown(path)));
                return;
            }
        };
        names.sort();
        // Git knows files by their real path, not by the links to it.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut taken = 0;
        for name in names {
            let inner = path.join(&name);
            if self.exclude.contains(&inner) {
                continue;
            }
            let found = real.join(&name);
            let is_link = found.is_symlink();
            let target =
                is_link.then(|| found.canonicalize().ok()).flatten().unwrap_or_else(|| found.clone());
            let ignored = ignored(&inner).or_else(|| ignored(&found)).map(|Ignored { why }| why);
            // If a suite names an ignored directory, its content is wanted.
            let is_by_git = [&found, &target].into_iter().any(|path| self.is_by_git(path));
            let by_git = || (is_by_git && !self.is_by_git(&real)).then(|| BY_GIT.to_owned());
            let is_included = [&inner, &found, &target].into_iter().any(|path| self.included.has(path));
            match ignored.or_else(by_git).filter(|_| !is_included) {
                None => {
                    taken += 1;
                    self.add(area, &inner, at, problems);
                }
                Some(why) => {
                    for file in self.included.below(&target) {
                        taken += 1;
                        self.add(area, &file, at, problems);
                        if is_link {
                            self.keep_link(area, &inner, &target);
                        }
                    }
                    let what = self.relative(&inner).unwrap_or_else(|| inner.display().to_string());
                    self.leave(what, why);
                }
            }
        }
        if taken == 0 {
            self.keep_directory(area, path, at, problems);
        }
    }

    fn is_by_git(&self, path: &Path) -> bool {
        path.ancestors()
            .take_while(|path| path.starts_with(&self.root))
            .any(|path| self.by_git.contains(path))
    }

    /// Rejects a file that looks like a credential, by name or content. The value is never shown.
    fn check_credentials(&mut self, path: &Path, source: &str, at: &Span, problems: &mut Problems) {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !self.checked.insert(path.to_owned()) || self.included.take(path) || self.included.take(&real) {
            return;
        }
        // A link to a directory does not hide the file's real name.
        let real_name = || file_name(real.strip_prefix(&self.root).unwrap_or(&real));
        let message = match file_name(Path::new(source)).or_else(real_name) {
            Some(FileName::Environment) => {
                format!("`{source}` is an environment file and may contain secrets")
            }
            Some(FileName::Credential(what)) if !is_certificate(path) => {
                format!("`{source}` appears to contain {what}")
            }
            _ => match scan(path) {
                Ok(None) => return,
                Ok(Some((line, what))) => format!("`{source}:{line}` appears to contain {what}"),
                Err(error) => {
                    problems.error(at, format!("cannot read `{source}`: {error}"));
                    return;
                }
            },
        };
        problems.error_with_hint(at, message, include_hint(source));
    }

    /// A link stays a link, and its target is included; it must not point outside the repository.
    fn add_link(
        &mut self,
        area: Area,
        path: &Path,
        place: &str,
        source: String,
        at: &Span,
        problems: &mut Problems,
    ) {
        let target = match fs::read_link(path) {
            Ok(target) => target,
            Err(error) => {
                problems.error(at, format!("cannot read the link `{}`: {error}", self.shown(path)));
                return;
            }
        };
        let parent = path.parent().unwrap_or(path);
        let leads_to = normalized(&parent.join(&target));
        let real = path.canonicalize();
        let inside = leads_to.starts_with(&self.root)
            && real.as_ref().map_or(true, |real| real.starts_with(&self.root));
        if !inside {
            problems.error_with_hint(
                at,
                format!(
                    "the link `{}` points outside the repository: `{}`",
                    self.shown(path),
                    target.display()
                ),
                "replace it with the file",
            );
            return;
        }
        let text = relative_path(parent, &leads_to);
        let is_made = |part: Component| {
            part.as_os_str().to_str().is_some_and(|name| MADE.contains(&name.to_lowercase().as_str()))
        };
        let way = leads_to.strip_prefix(&self.root).unwrap_or(&leads_to);
        if real.is_err() && way.components().any(is_made) {
            self.leave(source, "a link to installed packages or a cache: recreate it after the installation");
            return;
        }
        if real.is_ok() {
            self.add(area, &leads_to, at, problems);
        }
        self.entries.insert(place.to_owned(), BundleEntry::Link { target: text, source: Some(source) });
    }

    /// Adds a link to a directory that is only partly included.
    fn keep_link(&mut self, area: Area, path: &Path, target: &Path) {
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        if let (Some(place), Some(parent)) = (self.place(area, path), parent) {
            let link =
                BundleEntry::Link { target: relative_path(&parent, target), source: self.relative(path) };
            self.entries.insert(place, link);
        }
    }

    /// Moves entries below a link to the link's target: nothing is written through links.
    fn resolve_links(&mut self) {
        // A link may point to a place below another one.
        const MOST_ROUNDS: usize = 40;
        for _ in 0..MOST_ROUNDS {
            let moved = |path: &String| {
                let mut parents = path.match_indices('/').map(|(end, _)| (&path[..end], &path[end + 1..]));
                parents.find_map(|(parent, rest)| match self.entries.get(parent) {
                    Some(BundleEntry::Link { target, .. }) => {
                        let dir = Path::new(parent).parent().unwrap_or(Path::new(""));
                        let real = normalized(&dir.join(target)).join(rest);
                        Some((path.clone(), real.to_str()?.to_owned()))
                    }
                    _ => None,
                })
            };
            let moves: Vec<(String, String)> = self.entries.keys().filter_map(moved).collect();
            if moves.is_empty() {
                return;
            }
            for (path, real) in moves {
                if let Some(entry) = self.entries.remove(&path) {
                    self.entries.entry(real).or_insert(entry);
                }
            }
        }
    }

    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(path) if !path.as_os_str().is_empty() => path.display().to_string(),
            _ => path.display().to_string(),
        }
    }
}

/// The hint for a file that looks like a credential.
pub(super) fn include_hint(source: &str) -> String {
    format!("remove it, or pass `--include {source}` to bundle it anyway")
}

/// Whether a file contains only certificates and public keys.
fn is_certificate(path: &Path) -> bool {
    regular_file::read(path, regular_file::SETTINGS).is_ok_and(|text| is_public_pem(&text))
}

/// The first secret in a file: its line, and its kind.
fn scan(path: &Path) -> std::io::Result<Option<(usize, &'static str)>> {
    let (mut file, _) = regular_file::open(path)?;
    let mut scanner = Scanner::new(path);
    let mut buffer = vec![0; 1 << 18];
    loop {
        let length = file.read(&mut buffer)?;
        let found = if length == 0 { scanner.finish() } else { scanner.block(&buffer[..length]) };
        if found.is_some() || length == 0 {
            return Ok(found.map(|found| (found.line, found.what)));
        }
    }
}

/// The relative path from a directory to a path, both absolute and normalized.
pub(super) fn relative_path(from: &Path, to: &Path) -> String {
    let (mut from, mut to) = (from.components().peekable(), to.components().peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let mut parts: Vec<String> = from.map(|_| "..".to_owned()).collect();
    parts.extend(to.filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    }));
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_between_two_paths() {
        for (from, to, way) in
            [("/a/b", "/a/b/c", "c"), ("/a/b", "/a/c/d", "../c/d"), ("/a/b", "/a/b", "."), ("/a", "/", "..")]
        {
            assert_eq!(relative_path(Path::new(from), Path::new(to)), way);
        }
    }
}
