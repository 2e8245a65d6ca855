//! `.run-evals`, the directory in a checkout where run-evals keeps its files.
//!
//! A checkout may contain that directory with symlinks that point anywhere, so symlinks in it are rejected.
//! A path without `.run-evals` was chosen by the user and may be a symlink.

use std::fs::{self, FileType, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::model::{Failure, printable};

pub const NAME: &str = ".run-evals";

/// Rejects a directory if `.run-evals` or a component below it is a symlink or a file.
pub fn check(dir: &Path) -> Result<(), Failure> {
    for part in own_parts(dir) {
        match part.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(found) => return Err(refusal(&part, found.file_type(), "a directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(Failure::config(format!("cannot read `{}`: {error}", shown(&part)))),
        }
    }
    Ok(())
}

/// Like [`check`]; also rejects a directory that contains anything but files and directories: reading a pipe would never end.
pub fn check_entries(dir: &Path) -> Result<(), Failure> {
    check(dir)?;
    if own_parts(dir).is_empty() {
        return Ok(());
    }
    let cannot = |error: io::Error| Failure::config(format!("cannot read `{}`: {error}", shown(dir)));
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(cannot)?,
    };
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        let kind = entry.file_type().map_err(cannot)?;
        if !kind.is_file() && !kind.is_dir() {
            return Err(refusal(&entry.path(), kind, "a file or a directory"));
        }
    }
    Ok(())
}

/// Adds a `.gitignore` that hides the directory from the user's repository. Rejects a symlink in its place.
pub fn ignore_by_git(dir: &Path) -> Result<(), Failure> {
    let path = dir.join(".gitignore");
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => return Ok(()),
        Ok(found) => return Err(refusal(&path, found.file_type(), "a file")),
        Err(_) => {}
    }
    // `create_new` does not follow a symlink that appears in the meantime.
    let written = OpenOptions::new().write(true).create_new(true).open(&path);
    match written.and_then(|mut file| file.write_all(b"*\n")) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => {
            result.map_err(|error| Failure::config(format!("cannot write `{}`: {error}", shown(&path))))
        }
    }
}

/// The path up to `.run-evals`, and each longer prefix; empty for other paths.
fn own_parts(dir: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = dir.ancestors().map(Path::to_path_buf).collect();
    parts.reverse();
    let first = parts.iter().position(|part| part.ends_with(NAME));
    first.map_or_else(Vec::new, |first| parts.split_off(first))
}

fn refusal(path: &Path, kind: FileType, expected: &str) -> Failure {
    let found = if kind.is_symlink() {
        match fs::read_link(path) {
            Ok(to) => format!("a link to `{}`", shown(&to)),
            Err(_) => "a link".to_owned(),
        }
    } else if kind.is_dir() {
        "a directory".to_owned()
    } else if kind.is_file() {
        "a file".to_owned()
    } else {
        "neither a file nor a directory".to_owned()
    };
    let path = shown(path);
    Failure::config(format!("`{path}` is {found}, expected {expected}: nothing is written there"))
        .hint(format!("it may have come with the checkout: look at it, then remove it with `rm '{path}'`"))
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Vec<String> {
        own_parts(Path::new(path)).iter().map(|part| part.display().to_string()).collect()
    }

    #[test]
    fn only_paths_below_the_directory_are_ours() {
        assert_eq!(parts(".run-evals/exchange.git"), [".run-evals", ".run-evals/exchange.git"]);
        assert_eq!(parts("/a/.run-evals"), ["/a/.run-evals"]);
        assert_eq!(parts("/a/exchange.git"), [""; 0]);
        assert_eq!(parts("x.run-evals/y"), [""; 0]);
    }

    #[test]
    fn a_directory_with_a_link_in_it_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join(".run-evals/serve");
        check_entries(&state).unwrap();
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("jobs.jsonl"), "").unwrap();
        check_entries(&state).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", state.join("lock")).unwrap();
        let message = check_entries(&state).unwrap_err().to_string();
        assert!(
            message.ends_with(
                "lock` is a link to `/etc/passwd`, expected a file or a directory: nothing is written there"
            ),
            "{message}"
        );
    }

    #[test]
    fn a_dangling_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), dir.path().join(".gitignore")).unwrap();
        ignore_by_git(dir.path()).unwrap_err();
        assert!(!dir.path().join("outside").exists());
    }
}
