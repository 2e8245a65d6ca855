//! What will lie in a bundle: which file comes from where, checked before anything is written.
//!
//! Each of the three areas is an image of the repository: what was `a/b.py` there is `scripts/a/b.py` here, so that files which
//! name each other by relative paths still find each other.

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
    /// Templates that tests work in.
    Workspace,
    /// What commands run, and what that needs.
    Scripts,
    /// What is read: inputs, expected outputs, prompts.
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

/// One thing in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BundleEntry {
    /// A file that is copied.
    Copy {
        /// Where it is.
        from: PathBuf,
        /// Where it is in the repository.
        source: String,
        /// Whether it can be run.
        executable: bool,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: String,
        /// Where it is in the repository; links that were made for the bundle are nowhere.
        source: Option<String>,
    },
    /// A file that was made.
    Made {
        /// Its content.
        content: Vec<u8>,
        /// What it was made of.
        source: Option<String>,
    },
}

/// Something that stays behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct LeftBehind {
    /// What it is.
    pub what: String,
    /// Why it does not travel, and what brings it back.
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
    /// What never travels: where the bundle goes.
    exclude: Vec<PathBuf>,
    pub(super) entries: BTreeMap<String, BundleEntry>,
    pub(super) left: BTreeSet<LeftBehind>,
    known: HashSet<(Area, PathBuf)>,
    /// What travels whatever it looks like.
    pub(super) included: Included,
    /// What git ignores; a directory means everything in it.
    by_git: HashSet<PathBuf>,
    /// The files that were looked into.
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

    /// The place of a repository path in a bundle; nothing for one outside, or whose name is not UTF-8.
    pub(super) fn place(&self, area: Area, path: &Path) -> Option<String> {
        let relative = self.relative(path)?;
        Some(if relative.is_empty() { area.dir().to_owned() } else { format!("{}/{relative}", area.dir()) })
    }

    /// A path as the repository knows it.
    pub(super) fn relative(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.root).ok()?.to_str().map(ToOwned::to_owned)
    }

    /// Adds a file, a link or a whole directory; what is wrong with it is noted at `at`. Returns its place.
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
        // Rules for names also apply to where the links on the way lead.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let found = path.canonicalize().ok().or_else(|| Some(parent.as_ref()?.join(path.file_name()?)));
        let is_in_state = |path: &Path| path.strip_prefix(&self.root).is_ok_and(is_in_state);
        if is_in_state(&path) || found.as_deref().is_some_and(is_in_state) {
            let message =
                format!("a bundle never contains state of git or run-evals: `{}`", self.shown(&path));
            problems.error_with_hint(at, message, "copy the file to another directory");
            return None;
        }
        // Links on the way are followed once: a repository that is itself behind a link is still one.
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

    /// Keeps a directory that would be empty.
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

    /// Takes away the files that only kept a directory where something else keeps it, and tells names that some disks
    /// cannot tell apart.
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
                            "`{first}` and `{part}` differ only by case: some disks hold but one of them"
                        ),
                        "rename one of them",
                    );
                }
            }
        }
    }

    /// Notes what stays behind.
    pub(super) fn leave(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left.insert(LeftBehind { what: what.into(), why: why.into(), file: None, line: None });
    }

    /// The same for something that a line of a file needs.
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
        let hint = "move it into the repository; `--root DIR` names another directory as the repository";
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
        // Git knows files by where they are, not by the links that lead there.
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
            // A suite that names an ignored directory wants its content.
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

    /// Stops at a file that looks like a credential, by its name or by what is in it. The value is never shown.
    fn check_credentials(&mut self, path: &Path, source: &str, at: &Span, problems: &mut Problems) {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !self.checked.insert(path.to_owned()) || self.included.take(path) || self.included.take(&real) {
            return;
        }
        // A link to a directory does not hide what the file is called.
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

    /// A link stays a link, and what it leads to comes along; it must not lead out of the repository.
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
                    "the link `{}` leads out of the repository: `{}`",
                    self.shown(path),
                    target.display()
                ),
                "put the file itself there",
            );
            return;
        }
        let text = relative_path(parent, &leads_to);
        let is_made = |part: Component| {
            part.as_os_str().to_str().is_some_and(|name| MADE.contains(&name.to_lowercase().as_str()))
        };
        let way = leads_to.strip_prefix(&self.root).unwrap_or(&leads_to);
        if real.is_err() && way.components().any(is_made) {
            self.leave(
                source,
                "a link to installed packages or a cache: make it again after the installation",
            );
            return;
        }
        if real.is_ok() {
            self.add(area, &leads_to, at, problems);
        }
        self.entries.insert(place.to_owned(), BundleEntry::Link { target: text, source: Some(source) });
    }

    /// Adds a link to a directory of which only some files travel.
    fn keep_link(&mut self, area: Area, path: &Path, target: &Path) {
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        if let (Some(place), Some(parent)) = (self.place(area, path), parent) {
            let link =
                BundleEntry::Link { target: relative_path(&parent, target), source: self.relative(path) };
            self.entries.insert(place, link);
        }
    }

    /// Moves what is below a link to where the link leads: nothing is written through links.
    fn resolve_links(&mut self) {
        // A link may lead to a place below another one.
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

/// How a file travels that looks like a credential.
pub(super) fn include_hint(source: &str) -> String {
    format!("remove it, or pass `--include {source}` to bundle it anyway")
}

/// Whether a file has only certificates and public keys in it.
fn is_certificate(path: &Path) -> bool {
    regular_file::read(path, regular_file::SETTINGS).is_ok_and(|text| is_public_pem(&text))
}

/// The first secret in a file: its line, and what it is.
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

/// The way from a directory to a path, both absolute and normalized.
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
