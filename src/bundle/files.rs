//! What will lie in a bundle: which file comes from where, checked before anything is written.
//!
//! Each of the three areas is an image of the repository: what was `a/b.py` there is `scripts/a/b.py` here, so that files which
//! name each other by relative paths still find each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::ignore::{Ignored, ignored};
use crate::config::{Problems, Span, normalized};

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
pub(super) enum Entry {
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
}

/// The plan of what lies where.
#[derive(Debug)]
pub(super) struct Files {
    /// The repository, links resolved.
    root: PathBuf,
    /// What never travels: where the bundle goes.
    exclude: Vec<PathBuf>,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) left: BTreeSet<LeftBehind>,
    known: HashSet<(Area, PathBuf)>,
}

impl Files {
    pub(super) fn new(root: PathBuf, exclude: Vec<PathBuf>) -> Self {
        Self { root, exclude, entries: BTreeMap::new(), left: BTreeSet::new(), known: HashSet::new() }
    }

    /// Where a path of the repository lies in a bundle; nothing for one outside, or with a name that is no text.
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
        // Links on the way are followed once: a repository that is itself behind a link is still one.
        let real = path.parent().and_then(|parent| parent.canonicalize().ok());
        if real.is_some_and(|real| !real.starts_with(&self.root)) {
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

    /// Lets a directory be there, if nothing else lies in it.
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
        self.entries.entry(keep).or_insert(Entry::Made { content: Vec::new(), source: None });
        Some(place)
    }

    /// Takes away the files that only kept a directory where something else keeps it, and tells names that some disks
    /// cannot tell apart.
    pub(super) fn finish(&mut self, at: &Span, problems: &mut Problems) {
        let paths: Vec<String> = self.entries.keys().cloned().collect();
        for (i, path) in paths.iter().enumerate() {
            let Some(dir) = path.strip_suffix(".keep") else { continue };
            let made = matches!(self.entries.get(path), Some(Entry::Made { .. }));
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
        self.left.insert(LeftBehind { what: what.into(), why: why.into() });
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
            let executable = metadata.permissions().mode() & 0o100 != 0;
            self.entries.insert(place.to_owned(), Entry::Copy { from: path.to_owned(), source, executable });
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
        let mut taken = 0;
        for name in names {
            let inner = path.join(&name);
            if self.exclude.contains(&inner) {
                continue;
            }
            match ignored(&inner) {
                None => {
                    taken += 1;
                    self.add(area, &inner, at, problems);
                }
                Some(Ignored { why }) => {
                    let what = self.relative(&inner).unwrap_or_else(|| inner.display().to_string());
                    self.leave(what, why);
                }
            }
        }
        if taken == 0 {
            self.keep_directory(area, path, at, problems);
        }
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
        if real.is_ok() {
            self.add(area, &leads_to, at, problems);
        }
        self.entries.insert(place.to_owned(), Entry::Link { target: text, source: Some(source) });
    }

    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(path) if !path.as_os_str().is_empty() => path.display().to_string(),
            _ => path.display().to_string(),
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
    fn ways_between_paths() {
        for (from, to, way) in
            [("/a/b", "/a/b/c", "c"), ("/a/b", "/a/c/d", "../c/d"), ("/a/b", "/a/b", "."), ("/a", "/", "..")]
        {
            assert_eq!(relative_path(Path::new(from), Path::new(to)), way);
        }
    }
}
