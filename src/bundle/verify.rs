//! Whether a directory is the bundle that its manifest describes, down to the last byte.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use super::manifest::{Content, FileRecord, Manifest};
use super::{EVAL, MANIFEST, TARGETS};
use crate::config::{Document, normalized};
use crate::model::{Digest, Failure, printable};

/// How many differences are told.
const MOST: usize = 20;

/// What running a bundle leaves in it.
const LEFT_BY_RUNS: [&str; 5] =
    [".git", ".run-evals", ".agentv/results", ".agentv/cache", ".agentv/workspaces"];

/// What a sound bundle is.
#[derive(Debug)]
pub struct Verified {
    /// Its manifest.
    pub manifest: Manifest,
    /// The digest of the manifest, which stands for everything.
    pub sha256: Digest,
}

/// Something that is not as the manifest says.
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

/// Checks a bundle; everything that is wrong is told at once.
pub fn verify(dir: &Path) -> anyhow::Result<Verified> {
    verify_as(dir, dir)
}

/// The same for one that messages call otherwise.
pub(super) fn verify_as(dir: &Path, shown: &Path) -> anyhow::Result<Verified> {
    let path = dir.join(MANIFEST);
    let text = fs::read(&path).map_err(|error| {
        Failure::config(format!("`{}` is no bundle: cannot read `{MANIFEST}`: {error}", shown.display()))
            .hint("`run-evals bundle SUITE -o DIR` makes one")
    })?;
    let manifest = Manifest::parse(&text, &shown.join(MANIFEST))?;
    let mut wrong = Vec::new();
    let known: BTreeMap<&str, &FileRecord> =
        manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
    if known.len() != manifest.files.len() {
        wrong.push(different(MANIFEST, "names a file twice"));
    }
    for file in &manifest.files {
        check(dir, file, &mut wrong);
    }
    for needed in [EVAL] {
        if !known.contains_key(needed) {
            wrong.push(different(needed, "is missing"));
        }
    }
    for file in [EVAL, TARGETS] {
        let Ok(text) = fs::read_to_string(dir.join(file)) else { continue };
        if let Err(invalid) = Document::parse(file, text) {
            wrong.push(different(file, &format!("cannot be read: {invalid}")));
        }
    }
    for path in extra(dir)? {
        let name = path.to_string_lossy();
        if !known.contains_key(name.as_ref()) && name != MANIFEST {
            wrong.push(different(&name, "is not in the manifest"));
        }
    }
    if wrong.is_empty() {
        return Ok(Verified { sha256: Digest::of(&text), manifest });
    }
    let mut lines: Vec<String> = wrong.iter().take(MOST).map(|one| format!("  {one}")).collect();
    if wrong.len() > MOST {
        lines.push(format!("  and {} more", wrong.len() - MOST));
    }
    let message = format!("`{}` is not what its manifest says:\n{}", shown.display(), lines.join("\n"));
    Err(Failure::config(message).hint("bundle the suite again").into())
}

fn check(dir: &Path, file: &FileRecord, wrong: &mut Vec<Difference>) {
    let name = file.path.as_str();
    if !is_inside(name) {
        wrong.push(different(name, "is no path in the bundle"));
        return;
    }
    let path = dir.join(name);
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        wrong.push(different(name, "is missing"));
        return;
    };
    match &file.content {
        Content::Link { link } => {
            let parent = Path::new(name).parent().unwrap_or(Path::new(""));
            if !fs::read_link(&path).is_ok_and(|found| found == Path::new(link)) {
                wrong.push(different(name, "is another link"));
            } else if Path::new(link).is_absolute() || !stays_inside(&parent.join(link)) {
                wrong.push(different(name, "leads out of the bundle"));
            }
        }
        Content::File { size, sha256, mode } => {
            let executable = metadata.permissions().mode() & 0o100 != 0;
            if !metadata.is_file() {
                wrong.push(different(name, "is no file"));
            } else if metadata.len() != *size {
                wrong.push(different(name, &format!("has {} bytes, not {size}", metadata.len())));
            } else if executable != (mode == "0755") {
                wrong.push(different(name, &format!("has lost its mode {mode}")));
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

/// Whether a text is a path below a directory, spelled in the one way.
pub(super) fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        && !name.contains('\\')
        && path.components().all(|part| matches!(part, Component::Normal(_)))
        && normalized(path).to_str() == Some(name)
}

/// Whether a relative path never climbs out, on its way either.
pub(super) fn stays_inside(path: &Path) -> bool {
    let mut depth = 0_i64;
    path.components().all(|part| {
        depth += match part {
            Component::Normal(_) => 1,
            Component::ParentDir => -1,
            Component::CurDir => 0,
            Component::RootDir | Component::Prefix(_) => i64::MIN / 2,
        };
        depth >= 0
    })
}

/// Every file and link that is there, but for what runs leave.
fn extra(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let relative = |path: &Path| path.strip_prefix(dir).unwrap_or(path).to_owned();
    let is_left = |path: &Path| LEFT_BY_RUNS.iter().any(|left| relative(path) == Path::new(left));
    let mut found = Vec::new();
    for entry in WalkDir::new(dir).min_depth(1).into_iter().filter_entry(|entry| !is_left(entry.path())) {
        let entry = entry.with_context(|| format!("cannot read `{}`", dir.display()))?;
        if !entry.file_type().is_dir() {
            found.push(relative(entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn digest(path: &Path) -> std::io::Result<Digest> {
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
    fn paths_in_and_out() {
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
        for (path, inside) in [("a/../b", true), ("a/../../b", false), ("a/b/../../c", true), ("/a", false)] {
            assert_eq!(stays_inside(Path::new(path)), inside, "{path}");
        }
    }
}
