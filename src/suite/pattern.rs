//! File name patterns: `*`, `?`, `{a,b}`, `[abc]` and `**`.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use walkdir::WalkDir;

use crate::config::normalized;

/// Whether AgentV treats the path as a pattern.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '{'])
}

/// The files that a pattern matches, sorted by the bytes of their paths. Names that begin with a dot match only a pattern with an
/// explicit dot.
pub(super) fn expand(pattern: &str, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let pattern = pattern.replace('\\', "/");
    let wild = pattern.find(['*', '?', '{', '[']).unwrap_or(pattern.len());
    let fixed = pattern[..wild].rfind('/').map_or(0, |slash| slash + 1);
    let (fixed, pattern) = pattern.split_at(fixed);
    let base = normalized(&dir.join(fixed));
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(false)
        .build()
        .map_err(|error| error.kind().to_string())?
        .compile_matcher();
    let spells_dot = pattern.starts_with('.') || pattern.contains("/.");
    let is_deep = pattern.contains("**") || pattern.contains('{');
    let depth = if is_deep { usize::MAX } else { pattern.split('/').count() };

    let mut files = Vec::new();
    let walk = WalkDir::new(&base).follow_links(true).min_depth(1).max_depth(depth);
    let is_visible = |name: &std::ffi::OsStr| spells_dot || !name.as_encoded_bytes().starts_with(b".");
    for entry in walk.into_iter().filter_entry(|entry| entry.depth() == 0 || is_visible(entry.file_name())) {
        match entry {
            Ok(entry) => {
                let path = entry.path();
                let relative = path.strip_prefix(&base).unwrap_or(path);
                if entry.file_type().is_file() && matcher.is_match(relative) {
                    files.push(entry.into_path());
                }
            }
            // A missing directory matches nothing; a dangling or circular link is not a file.
            Err(error) if error.loop_ancestor().is_some() => {}
            Err(error) if error.io_error().is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_agentv() {
        let temp = tempfile::tempdir().unwrap();
        for file in [
            "a.yaml",
            "b.yml",
            "c.jsonl",
            "sub/d.yaml",
            "sub/deep/e.yaml",
            "sub-2/f.yaml",
            ".hidden.yaml",
            ".dot/g.yaml",
        ] {
            let path = temp.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let from = temp.path().join("sub");
        std::os::unix::fs::symlink(&from, from.join("loop")).unwrap();
        for (pattern, expected) in [
            ("*.yaml", vec!["sub/d.yaml"]),
            ("../*.yaml", vec!["a.yaml"]),
            ("./../{a,b}.{yaml,yml}", vec!["a.yaml", "b.yml"]),
            ("../?.jsonl", vec!["c.jsonl"]),
            ("../sub*/*.yaml", vec!["sub-2/f.yaml", "sub/d.yaml"]),
            ("**/*.yaml", vec!["sub/d.yaml", "sub/deep/e.yaml"]),
            ("../.*.yaml", vec![".hidden.yaml"]),
            ("nowhere/*.yaml", vec![]),
        ] {
            let found: Vec<_> = expand(pattern, &from)
                .unwrap()
                .iter()
                .map(|path| path.strip_prefix(temp.path()).unwrap().to_string_lossy().into_owned())
                .collect();
            assert_eq!(found, expected, "{pattern}");
        }
        assert!(expand("{a", &from).is_err());
    }
}
