//! Files of an untrusted clone, read by relative paths that cannot leave it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::config::{Problems, Source, Span};

/// The directory of a clone.
#[derive(Debug, Clone)]
pub(super) struct Library {
    root: PathBuf,
}

/// Reads a data-set file by its path, up to a number of bytes; `None` if it does not exist.
pub type ReadData<'d> = dyn Fn(&str, u64) -> Result<Option<Vec<u8>>, ReadRefusal> + 'd;

/// Why a path is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadRefusal {
    /// It is not relative, or leads upwards, or into `.git`.
    Path,
    /// It, or a folder on the way, is a link.
    Link,
    /// It is not a regular file.
    NoFile,
    /// It is larger than this.
    TooLarge(u64),
    /// The system returned an error.
    Failed(String),
}

impl ReadRefusal {
    /// The problem with the path, for messages.
    pub(super) fn explain(&self, path: &str) -> String {
        match self {
            Self::Path => format!("`{path}` is not a relative path inside the clone"),
            Self::Link => format!("`{path}` is a link or is reached through one; links are not followed"),
            Self::NoFile => format!("`{path}` is not a file"),
            Self::TooLarge(most) => format!("`{path}` is larger than {most} bytes"),
            Self::Failed(error) => format!("cannot read `{path}`: {error}"),
        }
    }
}

impl Library {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The bytes of a file; `None` if it does not exist.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, ReadRefusal> {
        let Some(full) = self.walk(path)? else { return Ok(None) };
        let failed = |error: std::io::Error| ReadRefusal::Failed(error.to_string());
        // Opening a pipe would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open(&full, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let file = std::fs::File::from(opened);
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(ReadRefusal::NoFile);
        }
        if metadata.len() > most {
            return Err(ReadRefusal::TooLarge(most));
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > most { Err(ReadRefusal::TooLarge(most)) } else { Ok(Some(bytes)) }
    }

    /// The text of a file; records an error if it cannot be read or is not UTF-8.
    pub(super) fn text(&self, path: &str, most: u64, problems: &mut Problems) -> Option<Arc<Source>> {
        let bytes = match self.read(path, most) {
            Ok(bytes) => bytes?,
            Err(refused) => {
                problems.error(&place(path), refused.explain(path));
                return None;
            }
        };
        match Source::decode(path, bytes) {
            Ok(source) => Some(Arc::new(source)),
            Err(invalid) => {
                problems.absorb(invalid);
                None
            }
        }
    }

    /// The names of the folders in a folder, sorted; rejects links and names that are not UTF-8, ignores files.
    pub(super) fn folders(&self, path: &str) -> Result<Vec<String>, ReadRefusal> {
        let Some(full) = self.walk(path)? else { return Ok(Vec::new()) };
        let failed = |error: std::io::Error| ReadRefusal::Failed(error.to_string());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(full).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_symlink() {
                return Err(ReadRefusal::Link);
            }
            if kind.is_dir() {
                names.push(entry.file_name().into_string().map_err(|_| ReadRefusal::Path)?);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The path on disk, checking every folder on the way; `None` if it does not exist.
    fn walk(&self, path: &str) -> Result<Option<PathBuf>, ReadRefusal> {
        if !is_inside(path) {
            return Err(ReadRefusal::Path);
        }
        let mut full = self.root.clone();
        for part in path.split('/') {
            full.push(part);
            match full.symlink_metadata() {
                Ok(metadata) if metadata.is_symlink() => return Err(ReadRefusal::Link),
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(ReadRefusal::Failed(error.to_string())),
            }
        }
        Ok(Some(full))
    }
}

/// Whether a path is relative, never leads upwards, and does not enter the clone's `.git`.
pub(super) fn is_inside(path: &str) -> bool {
    let legal = |part: &str| {
        !part.is_empty()
            && part.len() <= 255
            && part != "."
            && part != ".."
            && !part.eq_ignore_ascii_case(".git")
    };
    (1..=1000).contains(&path.len())
        && !path.contains(|c: char| c == '\\' || c.is_control())
        && path.split('/').all(legal)
}

/// The start of a file that could not be read.
pub(super) fn place(path: &str) -> Span {
    Span::of_line(&Arc::new(Source { path: path.into(), text: String::new() }), 1)
}

/// A parsed JSON file; records errors at their position.
pub(super) fn json(source: &Arc<Source>, problems: &mut Problems) -> Option<serde_json::Value> {
    match serde_json::from_str(&source.text) {
        Ok(value) => Some(value),
        Err(error) => {
            let small = |number: usize| u32::try_from(number.max(1)).unwrap_or(u32::MAX);
            let span = Span {
                source: Arc::clone(source),
                line: small(error.line()),
                column: small(error.column()),
                width: 1,
            };
            let text = error.to_string();
            let words = text.split(" at line ").next().unwrap_or(&text);
            problems.error(&span, format!("invalid JSON: {words}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_leave_the_library() {
        for good in ["a", "a/b.md", "a b/ü", ".evaluator/models.yaml", "a/..b"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            ".git/config",
            "a/.GIT/x",
            "a\\b",
            "a\0",
        ] {
            assert!(!is_inside(bad), "{bad}");
        }
    }

    #[test]
    fn links_pipes_and_large_files_are_rejected() {
        let temp = tempfile::tempdir().unwrap();
        let (inside, outside) = (temp.path().join("in"), temp.path().join("out"));
        std::fs::create_dir_all(inside.join("folder")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("secret"), "s").unwrap();
        std::fs::write(inside.join("file"), "12345").unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), inside.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("away")).unwrap();
        nix_fifo(&inside.join("pipe"));
        let library = Library::new(&inside);
        assert_eq!(library.read("file", 5), Ok(Some(b"12345".to_vec())));
        assert_eq!(library.read("file", 4), Err(ReadRefusal::TooLarge(4)));
        assert_eq!(library.read("none", 5), Ok(None));
        assert_eq!(library.read("file/none", 5), Ok(None));
        assert_eq!(library.read("folder", 5), Err(ReadRefusal::NoFile));
        assert_eq!(library.read("pipe", 5), Err(ReadRefusal::NoFile));
        assert_eq!(library.read("link", 5), Err(ReadRefusal::Link));
        assert_eq!(library.read("away/secret", 5), Err(ReadRefusal::Link));
        assert_eq!(library.read("../out/secret", 5), Err(ReadRefusal::Path));
        assert_eq!(library.folders("folder").unwrap(), Vec::<String>::new());
    }

    fn nix_fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
    }
}
