//! Paths as text.

use std::path::{Component, Path, PathBuf};

/// Resolves `.` and `..` lexically.
pub fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// A path quoted for a shell.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_resolved() {
        assert_eq!(normalized(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(normalized(Path::new("/../a")), Path::new("/a"));
    }

    #[test]
    fn a_quoted_path_is_one_shell_word() {
        let texts = ["a/b-c.git", "ex a.git", "it's", ""].map(|path| quoted(Path::new(path)));
        assert_eq!(texts, ["a/b-c.git", "'ex a.git'", r"'it'\''s'", "''"]);
    }
}
