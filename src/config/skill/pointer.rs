//! `input-source.md`: prose that may name the input file.

use super::library::is_inside;

/// The words before the file name.
const LABEL: &str = "text used for this case:";

/// The data-set file that the text names after `Text used for this case:`; `None` if it names none, several, or something
/// that is not a path.
pub(super) fn in_prose(text: &str) -> Option<String> {
    let plain = text.replace("**", "").replace('\r', "");
    // Lower case may be longer than the text it was made of.
    if !plain.is_ascii() && plain.to_lowercase().len() != plain.len() {
        return None;
    }
    let lower = plain.to_lowercase();
    let mut places = lower.match_indices(LABEL);
    let (at, _) = places.next()?;
    if places.next().is_some() {
        return None;
    }
    let after = plain.get(at + LABEL.len()..)?.trim_start().strip_prefix('`')?;
    let (path, _) = after.split_once('`')?;
    let is_path = is_inside(path) && path.contains('/') && !path.contains(char::is_whitespace);
    is_path.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unambiguous_pointers_are_read() {
        let found = "# Source\n\n- **Letter:** x\n- **Text used for this case:** `real/a/b.md` in\n  [`o/data`](https://x). The PDF is `real/a/b.pdf`.\n";
        assert_eq!(in_prose(found).as_deref(), Some("real/a/b.md"));
        assert_eq!(in_prose("Text used for this case:\n  `a/b.txt`").as_deref(), Some("a/b.txt"));
        for unclear in [
            "",
            "The text is `real/a/b.md`.",
            "Text used for this case: the one in `real/a/b.md`.",
            "Text used for this case: `a/b`\n\nText used for this case: `a/c`",
            "Text used for this case: `../../etc/passwd`",
            "Text used for this case: `/etc/passwd`",
            "Text used for this case: `.git/config`",
            "Text used for this case: `https://x.example/a`",
            "Text used for this case: `b.md`",
            "Text used for this case: `a/b",
            "İ Text used for this case: `a/b`",
        ] {
            assert_eq!(in_prose(unclear), None, "{unclear}");
        }
    }
}
