//! Checks whether a directory is exactly the bundle that its manifest describes, and what else it contains.
//!
//! The manifest is untrusted, too: it can list only legal content of a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use super::ignore::is_state;
use super::manifest::{Content, FileRecord, Manifest};
use super::{EVAL, MANIFEST, TARGETS};
use crate::config::{Document, normalized};
use crate::model::{Digest, Failure, printable};
use crate::util::regular_file;
use crate::util::truncate::truncate;

/// How many differences are listed.
const MOST: usize = 20;
/// The most links on one path, as in Linux.
const MOST_LINKS: usize = 40;
/// The longest path or link target in bytes, as in Linux.
const LONGEST_PATH: usize = 4096;
/// How much of a longer path is shown.
const LONGEST_SHOWN: usize = 60;
/// The most segments of a path or link target.
const MOST_PARTS: usize = 256;
/// The largest manifest, for about 150,000 files.
pub(super) const LARGEST_MANIFEST: u64 = 32 << 20;

/// What the directory of a bundle may contain besides it: results of runs, a git repository that contains the bundle, and
/// variables for a run. These are listed but not checked.
const BESIDE: [&str; 7] = [
    ".env",
    ".git",
    ".run-evals",
    ".agentv/results",
    ".agentv/cache",
    ".agentv/cache.json",
    ".agentv/workspaces",
];

/// Directories that programs create anywhere: caches and installed packages.
pub(super) const MADE: [&str; 6] =
    ["__pycache__", "node_modules", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache"];

/// The paths of a bundle's files.
const PLACES: [&str; 6] =
    ["workspace/", "scripts/", "data/", ".agentv/assertions/", ".agentv/graders/", ".agentv/judges/"];

/// A verified bundle.
#[derive(Debug)]
pub struct VerifiedBundle {
    /// Its manifest.
    pub manifest: Manifest,
    /// The digest of the manifest, which covers everything.
    pub sha256: Digest,
    /// Legal entries of the directory that are not part of the bundle.
    pub beside: Vec<String>,
}

/// A difference from the manifest.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    path: String,
    what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", printable(&self.path), self.what)
    }
}

/// Checks a bundle and reports every difference at once.
pub fn verify(dir: &Path) -> anyhow::Result<VerifiedBundle> {
    verify_as(dir, dir)
}

/// The same, with another name in messages.
pub(super) fn verify_as(dir: &Path, shown: &Path) -> anyhow::Result<VerifiedBundle> {
    let text = read_manifest(dir).map_err(|error| {
        Failure::config(format!("`{}` is not a bundle: cannot read `{MANIFEST}`: {error}", shown.display()))
            .hint("`run-evals bundle SUITE -o DIR` creates one")
    })?;
    let manifest = Manifest::parse(&text, &shown.join(MANIFEST))?;
    let (known, mut wrong) = listed(&manifest);
    // Illegal paths are not accessed.
    if wrong.is_empty() {
        manifest.files.iter().for_each(|file| check(dir, file, &mut wrong));
    }
    for needed in [EVAL] {
        if !known.contains_key(needed) {
            wrong.push(different(needed, "is missing"));
        }
    }
    for file in [EVAL, TARGETS] {
        let is_file = fs::symlink_metadata(dir.join(file)).is_ok_and(|metadata| metadata.is_file());
        let text = is_file.then(|| regular_file::read_to_string(&dir.join(file), regular_file::CONTENT));
        let Some(Ok(text)) = text else { continue };
        if let Err(invalid) = Document::parse(file, text) {
            wrong.push(different(file, &format!("cannot be read: {invalid}")));
        }
    }
    let extra = extra(dir, &known)?;
    for path in extra.files {
        let name = path.to_string_lossy();
        if !known.contains_key(name.as_ref()) && name != MANIFEST {
            wrong.push(different(&name, "is not in the manifest"));
        }
    }
    wrong.extend(
        extra.links.iter().map(|name| different(name, "is a symbolic link; runs never create one here")),
    );
    if wrong.is_empty() {
        return Ok(VerifiedBundle { sha256: Digest::of(&text), manifest, beside: extra.beside });
    }
    Err(not_as_listed(&wrong, shown).into())
}

/// The text of a manifest, which must be a file and not a link.
pub(super) fn read_manifest(dir: &Path) -> io::Result<Vec<u8>> {
    let path = dir.join(MANIFEST);
    if fs::symlink_metadata(&path)?.is_symlink() {
        return Err(io::Error::other("it is a link, expected a file"));
    }
    regular_file::read(&path, LARGEST_MANIFEST)
}

/// The files of a manifest by path, and its illegal entries.
fn listed(manifest: &Manifest) -> (BTreeMap<&str, &FileRecord>, Vec<Difference>) {
    let mut wrong = Vec::new();
    let mut known = BTreeMap::new();
    let mut spelled: BTreeMap<String, &str> = BTreeMap::from([(MANIFEST.to_owned(), MANIFEST)]);
    for file in &manifest.files {
        let name = file.path.as_str();
        // Other checks take longer for longer paths.
        if let Some(what) = too_long(file) {
            wrong.push(different(&truncate(name, LONGEST_SHOWN), what));
            continue;
        }
        let is_placed = [EVAL, TARGETS].contains(&name) || PLACES.iter().any(|place| name.starts_with(place));
        let what = if !is_inside(name) {
            "is not a valid path in a bundle"
        } else if name.split('/').any(is_state) {
            "is state of git or run-evals, which a bundle never contains"
        } else if known.insert(name, file).is_some() {
            "is listed twice"
        } else if spelled.insert(name.to_lowercase(), name).is_some() {
            "differs from another file only by case"
        } else if !is_placed {
            "is not a path that bundles use"
        } else {
            continue;
        };
        wrong.push(different(name, what));
    }
    // Only legal paths are followed.
    if wrong.is_empty() {
        let links = Links::of(manifest);
        wrong.extend(manifest.files.iter().filter_map(|file| links.problem(file)));
    }
    (known, wrong)
}

/// Whether a path or link target is too long for a bundle.
fn too_long(file: &FileRecord) -> Option<&'static str> {
    let is_long = |path: &str| path.len() > LONGEST_PATH || path.split('/').count() > MOST_PARTS;
    match &file.content {
        _ if is_long(&file.path) => Some("is longer than 4096 bytes or 256 parts"),
        Content::Link { link } if is_long(link) => {
            Some("resolves to a path longer than 4096 bytes or 256 parts")
        }
        _ => None,
    }
}

/// The links of a bundle, in lower case, because some disks ignore case.
struct Links<'m> {
    /// Targets by path.
    targets: BTreeMap<String, &'m str>,
    /// Directories with the name of a generated one, of which the manifest lists files.
    made: BTreeSet<String>,
}

impl<'m> Links<'m> {
    fn of(manifest: &'m Manifest) -> Self {
        let links = manifest.files.iter().filter_map(|file| match &file.content {
            Content::Link { link } => Some((file.path.to_lowercase(), link.as_str())),
            Content::File { .. } => None,
        });
        let made = manifest.files.iter().flat_map(|file| {
            let parents = file.path.match_indices('/').map(|(end, _)| &file.path[..end]);
            parents.filter(|parent| parent.rsplit('/').next().is_some_and(|name| MADE.contains(&name)))
        });
        Self { targets: links.collect(), made: made.map(str::to_lowercase).collect() }
    }

    /// The problem with a path that is a link, or below one.
    fn problem(&self, file: &FileRecord) -> Option<Difference> {
        let name = file.path.as_str();
        if self.targets.is_empty() {
            return None;
        }
        let lower = name.to_lowercase();
        let mut parents = lower.match_indices('/').zip(name.match_indices('/'));
        let below = parents.find(|((end, _), _)| self.targets.contains_key(&lower[..*end]));
        if let Some((_, (end, _))) = below {
            let link = &name[..end];
            return Some(different(name, &format!("is below the link `{}`", printable(link))));
        }
        let Content::Link { .. } = &file.content else { return None };
        if [EVAL, TARGETS].contains(&name) {
            return Some(different(name, "is a link, expected a file"));
        }
        self.follow(name).err().map(|what| different(name, what))
    }

    /// Resolves a path link by link, like a file system; an error if it leaves the bundle on the way.
    fn follow(&self, name: &str) -> Result<(), &'static str> {
        const OUT: &str = "points outside the bundle";
        let mut left: Vec<String> = name.to_lowercase().rsplit('/').map(ToOwned::to_owned).collect();
        let mut at = String::new();
        let mut followed = 0;
        while let Some(part) = left.pop() {
            match part.as_str() {
                "" | "." => {}
                ".." if at.is_empty() => return Err(OUT),
                ".." => at.truncate(at.rfind('/').unwrap_or(0)),
                name => {
                    let parent = at.len();
                    if parent > 0 {
                        at.push('/');
                    }
                    at.push_str(name);
                    // Entries next to a bundle are not checked, so they may point anywhere.
                    if BESIDE.contains(&at.as_str()) || MADE.contains(&name) && !self.made.contains(&at) {
                        return Err("points outside the bundle, to a file that is not part of it");
                    }
                    let Some(link) = self.targets.get(&at) else { continue };
                    followed += 1;
                    if followed > MOST_LINKS {
                        return Err("is circular, or resolves through more than 40 links");
                    }
                    if link.starts_with('/') || link.contains('\\') {
                        return Err(OUT);
                    }
                    at.truncate(parent);
                    left.extend(link.to_lowercase().rsplit('/').map(ToOwned::to_owned));
                }
            }
        }
        Ok(())
    }
}

/// Rejects a manifest with illegal entries, and returns its files by path.
pub(super) fn check_listed<'m>(
    manifest: &'m Manifest,
    shown: &Path,
) -> Result<BTreeMap<&'m str, &'m FileRecord>, Failure> {
    match listed(manifest) {
        (known, wrong) if wrong.is_empty() => Ok(known),
        (_, wrong) => Err(not_as_listed(&wrong, shown)),
    }
}

fn not_as_listed(wrong: &[Difference], shown: &Path) -> Failure {
    let mut lines: Vec<String> = wrong.iter().take(MOST).map(|one| format!("  {one}")).collect();
    if wrong.len() > MOST {
        lines.push(format!("  and {} more", wrong.len() - MOST));
    }
    let message = format!("`{}` does not match its manifest:\n{}", shown.display(), lines.join("\n"));
    Failure::config(message).hint("bundle the suite again")
}

fn check(dir: &Path, file: &FileRecord, wrong: &mut Vec<Difference>) {
    let name = file.path.as_str();
    let path = dir.join(name);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        wrong.push(different(name, "is missing"));
        return;
    };
    match &file.content {
        Content::Link { link } => {
            if !fs::read_link(&path).is_ok_and(|found| found == Path::new(link)) {
                wrong.push(different(name, "is another link"));
            }
        }
        Content::File { size, sha256, mode } => {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            if !metadata.is_file() {
                wrong.push(different(name, "is not a file"));
            } else if metadata.len() != *size {
                wrong.push(different(name, &format!("has {} bytes, not {size}", metadata.len())));
            } else if executable != (mode == "0755") {
                wrong.push(different(name, &format!("does not have its mode {mode}")));
            } else {
                match digest(&path) {
                    Ok(found) if found == *sha256 => {}
                    Ok(_) => wrong.push(different(name, "has other content")),
                    Err(error) => wrong.push(different(name, &format!("cannot be read: {error}"))),
                }
            }
        }
    }
}

/// Whether a text is a normalized path below a directory.
pub(super) fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        && !name.contains('\\')
        && path.components().all(|part| matches!(part, Component::Normal(_)))
        && normalized(path).to_str() == Some(name)
}

/// The entries in the directory of a bundle.
#[derive(Default)]
struct Extra {
    /// Every file and link, except what may be next to a bundle.
    files: Vec<PathBuf>,
    /// Entries that may be.
    beside: Vec<String>,
    /// Entries that may be, but are links.
    links: Vec<String>,
}

fn extra(dir: &Path, known: &BTreeMap<&str, &FileRecord>) -> anyhow::Result<Extra> {
    let relative = |path: &Path| path.strip_prefix(dir).unwrap_or(path).to_owned();
    let mut extra = Extra::default();
    let mut entries = WalkDir::new(dir).min_depth(1).sort_by_file_name().into_iter();
    while let Some(entry) = entries.next() {
        let entry = entry.with_context(|| format!("cannot read `{}`", dir.display()))?;
        let path = relative(entry.path());
        let kind = entry.file_type();
        let name = path.to_string_lossy().into_owned();
        let is_made = entry.file_name().to_str().is_some_and(|name| MADE.contains(&name))
            && PLACES.iter().any(|place| name.starts_with(place))
            && !known.keys().any(|listed| listed.starts_with(&format!("{name}/")));
        if !BESIDE.contains(&name.as_str()) && !is_made {
            if !kind.is_dir() {
                extra.files.push(path);
            }
        } else if kind.is_symlink() {
            extra.links.push(name);
        } else {
            let state = kind.is_dir() && name == ".run-evals";
            let within = if state { contents(entry.path()) } else { Vec::new() };
            extra.beside.extend(within.iter().map(|inner| format!("{name}/{inner}")));
            if within.is_empty() {
                extra.beside.push(name);
            }
            if kind.is_dir() {
                entries.skip_current_dir();
            }
        }
    }
    Ok(extra)
}

/// The names in a directory.
fn contents(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 18];
    let mut hasher = Sha256::new();
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Digest::finish(hasher)),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn different(path: &str, what: &str) -> Difference {
    Difference { path: path.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_and_outside_the_bundle() {
        for (path, inside) in [
            ("a/b", true),
            ("a", true),
            ("", false),
            ("/a", false),
            ("a/../b", false),
            ("./a", false),
            ("a//b", false),
            ("..", false),
        ] {
            assert_eq!(is_inside(path), inside, "{path}");
        }
    }

    #[test]
    fn links_are_resolved_as_on_a_disk() {
        let links = [
            ("data/here", "."),
            ("data/up", ".."),
            ("data/file", "../workspace/a"),
            ("data/again", "file"),
            ("data/deep", "here/here/../data/again"),
            ("data/out", "here/../../x"),
            ("data/far", "up/.."),
            ("data/loop", "loop"),
            ("data/root", "/etc"),
            ("data/env", "up/.Env"),
        ];
        let targets = links.map(|(path, link)| (path.to_owned(), link)).into();
        let links = Links { targets, made: BTreeSet::new() };
        for name in ["here", "up", "file", "again", "deep"] {
            assert_eq!(links.follow(&format!("data/{name}")), Ok(()), "{name}");
        }
        for name in ["out", "far", "loop", "root", "env"] {
            links.follow(&format!("data/{name}")).unwrap_err();
        }
    }
}
