//! The files that `--include FILE` adds to a bundle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::normalized;
use crate::model::{Failure, printable};

/// Files that are included despite the rules.
#[derive(Debug, Default)]
pub(super) struct Included {
    /// Each with its original spelling, and whether it was used.
    files: BTreeMap<PathBuf, (String, bool)>,
}

impl Included {
    /// Finds the files relative to the working directory; rejects anything but files of the repository.
    pub(super) fn new(files: &[PathBuf], cwd: &Path, root: &Path) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for file in files {
            let shown = printable(&file.to_string_lossy());
            let refused = |what: &str| Failure::config(format!("`--include {shown}`: {what}"));
            let path = normalized(&cwd.join(file));
            let real = path.parent().and_then(|dir| dir.canonicalize().ok()).zip(path.file_name());
            let Some(path) = real.map(|(dir, name)| dir.join(name)).filter(|path| path.exists()) else {
                return Err(refused("no such file").hint("pass a file, relative to the working directory"));
            };
            if path.is_dir() {
                return Err(refused("it is a directory").hint("pass each file"));
            }
            if !path.starts_with(root) {
                return Err(refused("outside the repository").hint(
                    "move it into the repository; `--root DIR` sets another directory as the repository",
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

    /// The same, and marks it as used.
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

    /// Rejects one that no included directory or reference contains.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match self.files.values().find(|(_, met)| !met) {
            None => Ok(()),
            Some((shown, _)) => Err(Failure::config(format!(
                "`--include {shown}`: the suite does not refer to it"
            ))
            .hint(
                "use it in the suite or in a command; `--include` adds only files that would be left behind",
            )),
        }
    }
}
