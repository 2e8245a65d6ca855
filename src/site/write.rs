//! Writes the site to a directory.
//!
//! `site.json` lists the site's files, so that the next one deletes those that it no longer has, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::board::Board;
use super::document::Root;
use crate::model::{Exit, Failure};
use crate::util::regular_file;

const MANIFEST: &str = "site.json";
const GENERATOR: &str = "run-evals leaderboard site";

/// The manifest of a site's directory.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    generator: String,
    files: Vec<String>,
}

/// The result of writing.
#[derive(Debug, Clone, Copy)]
pub struct WrittenSite {
    /// The number of pages.
    pub pages: usize,
    /// The number of files.
    pub files: usize,
    /// The size of the largest page.
    pub largest_page: usize,
    /// The total size.
    pub bytes: usize,
    /// The number of deleted files of an earlier site.
    pub deleted: usize,
}

/// Writes the site into an empty directory, or over an earlier site.
pub fn write(board: &Board, dir: &Path) -> anyhow::Result<WrittenSite> {
    let earlier = earlier(dir)?;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut add = |path: String, bytes: Vec<u8>| -> anyhow::Result<()> {
        anyhow::ensure!(!files.contains_key(&path), "two names give the same file `{path}`");
        files.insert(path, bytes);
        Ok(())
    };
    let (mut pages, mut largest_page) = (0, 0);
    for document in board.documents() {
        for page in board.render(document, Root::Relative) {
            let html = page.framed(board.title());
            anyhow::ensure!(html.contains("<h1"), "cannot render `{}`", page.path);
            (pages, largest_page) = (pages + 1, largest_page.max(html.len()));
            add(page.path, html.into_bytes())?;
        }
    }
    for file in Board::assets().into_iter().chain(board.files()) {
        add(file.path, file.bytes)?;
    }
    add(".nojekyll".to_owned(), Vec::new())?;
    let manifest = Manifest { generator: GENERATOR.to_owned(), files: files.keys().cloned().collect() };
    let mut bytes = serde_json::to_vec_pretty(&manifest)?;
    bytes.push(b'\n');
    let gone: Vec<&String> = earlier.iter().filter(|path| !files.contains_key(*path)).collect();
    for path in &gone {
        delete(dir, path)?;
    }
    // The list is first: a file that it names and that is not there yet does no harm, one that it lacks would stay forever.
    put(dir, MANIFEST, &bytes)?;
    for (path, bytes) in &files {
        put(dir, path, bytes)?;
    }
    let size = files.values().map(Vec::len).sum::<usize>() + bytes.len();
    Ok(WrittenSite { pages, files: files.len() + 1, largest_page, bytes: size, deleted: gone.len() })
}

/// The files of the existing site in a directory.
fn earlier(dir: &Path) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot read `{}`", dir.display());
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(cannot),
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(Vec::new());
            }
        }
    }
    let refused = || {
        let message = format!("`{}` is not empty, and not a site of `run-evals`", dir.display());
        Failure::new(Exit::Usage, message).hint("name a new or empty directory with `--output`")
    };
    let bytes = regular_file::read(&dir.join(MANIFEST), regular_file::SETTINGS).map_err(|_| refused())?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|_| refused())?;
    if manifest.generator != GENERATOR {
        return Err(refused().into());
    }
    Ok(manifest.files)
}

/// Deletes a file of an earlier site, and the directories that become empty.
fn delete(dir: &Path, path: &str) -> anyhow::Result<()> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) || has_link(dir, relative) {
        // Not a path that this program wrote.
        return Ok(());
    }
    match fs::remove_file(dir.join(relative)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot delete `{}`", dir.join(relative).display()));
        }
        _ => {}
    }
    for parent in relative.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        if fs::remove_dir(dir.join(parent)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Whether a path passes through a symbolic link, which could point outside the directory.
fn has_link(dir: &Path, relative: &Path) -> bool {
    let parts: Vec<&Path> = relative.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
    parts.iter().any(|part| fs::symlink_metadata(dir.join(part)).is_ok_and(|meta| meta.is_symlink()))
}

fn put(dir: &Path, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let file = dir.join(path);
    let cannot = || format!("cannot write `{}`", file.display());
    if has_link(dir, Path::new(path)) {
        let message = format!("`{}` is, or is below, a symbolic link", file.display());
        return Err(Failure::new(Exit::Usage, message)
            .hint("remove the link, or name a new directory")
            .into());
    }
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).with_context(cannot)?;
    }
    // A pipe would block.
    if fs::symlink_metadata(&file).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        fs::remove_file(&file).with_context(cannot)?;
    }
    // A site can be regenerated, so do not wait for the disk.
    fs::write(&file, bytes).with_context(cannot)
}
