//! Path segments for the names of skills, models and cases.

use crate::model::Digest;

/// The longest part of a name in a path.
const LONGEST: usize = 60;

/// A path segment of lowercase letters, digits and hyphens. For any other name, its digest is appended after `_`, so that two
/// names never share a path and no name leaves its directory.
pub(super) fn segment(name: &str) -> String {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_plain =
        !name.is_empty() && name.len() <= LONGEST && name.chars().all(legal) && !name.starts_with('-');
    if is_plain && name != "index" {
        return name.to_owned();
    }
    let readable = name.chars().map(|c| c.to_ascii_lowercase()).map(|c| if legal(c) { c } else { '-' });
    let readable: String = readable.take(LONGEST).collect();
    format!("{}_{}", readable.trim_matches('-'), &Digest::of(name.as_bytes()).to_string()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_never_leaves_its_directory() {
        assert_eq!(segment("rfp-extraction"), "rfp-extraction");
        for name in [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "a/b",
            "A",
            "a_b",
            "\0",
            "index",
            "-x",
            "ä",
            "con.txt",
            "a\\b",
        ] {
            let segment = segment(name);
            assert!(segment.contains('_') && segment.len() < 80, "{name:?}: {segment}");
            assert!(
                segment.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b)),
                "{segment}"
            );
        }
        assert!(segment(&"x".repeat(100_000)).len() < 80);
        assert_ne!(segment("Quill"), segment("quill"));
        assert_ne!(segment("a/b"), segment("a-b"));
    }
}
