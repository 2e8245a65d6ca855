//! The files that `--include FILE` adds to a bundle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::normalized;
use crate::model::{Failure, printable};

/// Files that travel whatever they look like.
#[derive(Debug, Default)]
pub(super) struct Included {
    /// Each with what it was called, and whether it was met.
    files: BTreeMap<PathBuf, (String, bool)>,
}

impl Included {
    /// Finds the files, from the working directory on; anything that is not a file of the repository is refused.
    pub(super) fn new(files: &[PathBuf], cwd: &Path, root: &Path) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for file in files {
            let shown = printable(&file.to_string_lossy());
            let refused = |what: &str| Failure::config(format!("`--include {shown}`: {what}"));
            let path = normalized(&cwd.join(file));
            let real = path.parent().and_then(|dir| dir.canonicalize().ok()).zip(path.file_name());
            let Some(path) = real.map(|(dir, name)| dir.join(name)).filter(|path| path.exists()) else {
                return Err(refused("no such file").hint("name a file, from the working directory on"));
            };
            if path.is_dir() {
                return Err(refused("it is a directory").hint("name each file"));
            }
            if !path.starts_with(root) {
                return Err(refused("outside the repository").hint(
                    "move it into the repository; `--root DIR` names another directory as the repository",
                ));
            }
            found.insert(path, (shown, false));
        }
        Ok(Self { files: found })
    }

    /// Whether a file is one of them.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// The same, for a file that travels.
    pub(super) fn take(&mut self, path: &Path) -> bool {
        let Some((_, met)) = self.files.get_mut(path) else { return false };
        *met = true;
        true
    }

    /// Those in a directory.
    pub(super) fn below(&self, dir: &Path) -> Vec<PathBuf> {
        self.files.keys().filter(|file| file.starts_with(dir)).cloned().collect()
    }

    /// All of them.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(PathBuf::as_path)
    }

    /// Refuses one that is part of nothing that travels.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match self.files.values().find(|(_, met)| !met) {
            None => Ok(()),
            Some((shown, _)) => Err(Failure::config(format!(
                "`--include {shown}`: the suite does not refer to it"
            ))
            .hint("name it in the suite or in a command; `--include` takes along what would stay behind")),
        }
    }
}
