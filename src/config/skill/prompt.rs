//! `prompt.md`: front matter, notes for readers, and after `## Prompt` the prompt itself.

use std::sync::Arc;

use super::library::place;
use crate::config::{Document, Invalid, Problems, Source, Span};
use crate::model::{Digest, SemVersion};

/// The line after which the prompt begins.
const HEADING: &str = "## Prompt";

/// The content of a `prompt.md`.
#[derive(Debug)]
pub(super) struct PromptFile {
    pub(super) version: SemVersion,
    pub(super) body: String,
    pub(super) body_sha256: Digest,
}

/// The version of a skill, from the text of its `prompt.md`; `None` if it has none.
pub fn skill_version(prompt_md: &str) -> Option<SemVersion> {
    let text = prompt_md.strip_prefix('\u{feff}').unwrap_or(prompt_md);
    let source = Arc::new(Source { path: "prompt.md".into(), text: text.to_owned() });
    version(&source, &mut Problems::default())
}

pub(super) fn read(source: &Arc<Source>, problems: &mut Problems) -> Option<PromptFile> {
    let version = version(source, problems);
    let body = body(source);
    match body {
        None => {
            let span = Span { width: 1, ..Span::of_line(source, last_line(source)) };
            let hint = "the prompt is the text after the line `## Prompt`";
            problems.error_with_hint(&span, "the line `## Prompt` is missing", hint);
        }
        Some("") => {
            let span = Span { width: 1, ..Span::of_line(source, last_line(source)) };
            problems.error(&span, "there is no text after `## Prompt`");
        }
        Some(_) => {}
    }
    let body = body.filter(|body| !body.is_empty())?.to_owned();
    Some(PromptFile { version: version?, body_sha256: Digest::of(body.as_bytes()), body })
}

fn last_line(source: &Source) -> u32 {
    u32::try_from(source.text.lines().count().max(1)).unwrap_or(u32::MAX)
}

/// The text after the heading, trimmed.
fn body(source: &Source) -> Option<&str> {
    let mut rest = source.text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        if line.trim_end() == HEADING {
            return Some(rest.trim());
        }
    }
    None
}

fn version(source: &Arc<Source>, problems: &mut Problems) -> Option<SemVersion> {
    let front = match front_matter(source) {
        Ok(Some(front)) => front,
        Ok(None) => {
            let hint = "a prompt begins with a line `---`, keys such as `version: 1.0.0`, and a line `---`";
            problems.error_with_hint(
                &Span { width: 1, ..first(source) },
                "the front matter is missing",
                hint,
            );
            return None;
        }
        Err(invalid) => {
            problems.absorb(invalid);
            return None;
        }
    };
    let mut fields = front.root.fields("the front matter", problems)?;
    let Some(node) = fields.get("version") else {
        problems.error_with_hint(
            &first(source),
            "`version` is missing in the front matter",
            "write `version: 1.0.0`",
        );
        return None;
    };
    let version = node.as_str().and_then(|text| text.parse().ok());
    if version.is_none() {
        problems.error(&node.span, "`version`: expected three numbers, as in `1.4.0`");
    }
    version
}

fn first(source: &Arc<Source>) -> Span {
    if source.text.is_empty() { place(&source.path.to_string_lossy()) } else { Span::of_line(source, 1) }
}

/// The keys between the first two `---` lines, with their original line numbers.
fn front_matter(source: &Source) -> Result<Option<Document>, Invalid> {
    let mut lines = source.text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Ok(None);
    }
    let mut yaml = String::from("\n");
    for line in lines {
        if line.trim_end() == "---" {
            return Document::parse(source.path.clone(), yaml).map(Some);
        }
        yaml.push_str(line);
        yaml.push('\n');
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Arc<Source> {
        Arc::new(Source { path: "components/x/prompt.md".into(), text: text.to_owned() })
    }

    fn error(text: &str) -> String {
        let mut problems = Problems::default();
        read(&source(text), &mut problems);
        problems.finish().unwrap_err().to_string()
    }

    #[test]
    fn the_model_gets_the_text_after_the_heading() {
        let text = "---\nname: other\nversion: 1.10.2\n---\n\n# X\n\n> ## Prompt\n\n## Prompt  \r\n\n Do it.\n\n## Prompt\n\nMore.\n\n";
        let mut problems = Problems::default();
        let prompt = read(&source(text), &mut problems).unwrap();
        assert_eq!(prompt.version.to_string(), "1.10.2");
        assert_eq!(prompt.body, "Do it.\n\n## Prompt\n\nMore.");
        assert_eq!(prompt.body_sha256, Digest::of(prompt.body.as_bytes()));
    }

    #[test]
    fn versions_are_read_without_the_rest() {
        for (text, version) in [
            ("---\nversion: \"2.0.1\"\n---\n", Some("2.0.1")),
            ("\u{feff}---\r\nversion: 0.1.0 # first\r\n---\r\n", Some("0.1.0")),
            ("---\nname: x\n---\nversion: 1.0.0\n", None),
            ("version: 1.0.0\n", None),
            ("---\nversion: 1.0\n---\n", None),
            ("---\nversion: [1, 2, 3]\n---\n", None),
            ("---\nversion: 1.0.0\n", None),
            ("---\n{ : broken\n---\n", None),
            ("", None),
        ] {
            assert_eq!(skill_version(text).map(|found| found.to_string()).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn mistakes_are_shown_at_their_line() {
        insta::assert_snapshot!(error("# X\n\n## Prompts\n"), @"
        the front matter is missing
          --> components/x/prompt.md:1:1
           |
         1 | # X
           | ^

        hint: a prompt begins with a line `---`, keys such as `version: 1.0.0`, and a line `---`

        error: the line `## Prompt` is missing
          --> components/x/prompt.md:3:1
           |
         3 | ## Prompts
           | ^

        hint: the prompt is the text after the line `## Prompt`
        ");
        insta::assert_snapshot!(error("---\nname: x\nversion: 1.0\n---\n## Prompt\n\n"), @"
        `version`: expected three numbers, as in `1.4.0`
          --> components/x/prompt.md:3:10
           |
         3 | version: 1.0
           |          ^^^

        error: there is no text after `## Prompt`
          --> components/x/prompt.md:6:1
           |
         6 | 
           | ^
        ");
        insta::assert_snapshot!(error("---\nname: x\n---\n## Prompt\nDo it.\n"), @"
        `version` is missing in the front matter
          --> components/x/prompt.md:1:1
           |
         1 | ---
           | ^^^

        hint: write `version: 1.0.0`
        ");
        insta::assert_snapshot!(error("---\nname: [x\n---\n## Prompt\nDo it.\n"), @"
        invalid YAML: while parsing a flow sequence, expected ',' or ']'
          --> components/x/prompt.md:2:8
           |
         2 | name: [x
           |        ^
        ");
    }
}
