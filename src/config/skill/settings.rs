//! `.evaluator/config.yaml`: how a skill library keeps its results.

use std::path::Path;

use crate::config::{Document, Invalid, Problems, Source, did_you_mean};

/// Settings of a skill library.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LibrarySettings {
    /// Where results are written; `None` if unset.
    pub leaderboard: Option<Layout>,
    /// Whether answers are published, field by field; `None` if unset.
    pub case_details: Option<bool>,
}

/// How results are split into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `leaderboard/<skill>.json`: results of two skills never touch the same file.
    Split,
    /// All in `leaderboard.json`.
    Single,
}

const LAYOUTS: [(&str, Layout); 2] = [("split", Layout::Split), ("single", Layout::Single)];

impl LibrarySettings {
    /// The path of the file in the library.
    pub const PATH: &str = ".evaluator/config.yaml";

    /// Reads the file.
    pub fn read(bytes: Vec<u8>) -> Result<Self, Invalid> {
        let source = Source::decode(Path::new(Self::PATH), bytes)?;
        let document = Document::parse(source.path.clone(), source.text.clone())?;
        let mut problems = Problems::default();
        let mut settings = Self::default();
        if !document.root.is_null()
            && let Some(mut fields) = document.root.fields("the file", &mut problems)
        {
            if let Some(node) = fields.get("leaderboard") {
                let known = LAYOUTS.iter().find(|(word, _)| node.as_str() == Some(word));
                settings.leaderboard = known.map(|(_, layout)| *layout);
                if known.is_none() {
                    problems.error(&node.span, "`leaderboard`: expected `split` or `single`");
                }
            }
            settings.case_details = fields.boolean("case_details", &mut problems);
            for key in fields.unknown() {
                let message =
                    format!("unknown key `{}`; legal are `leaderboard` and `case_details`", key.text);
                match did_you_mean(&key.text, ["leaderboard", "case_details"]) {
                    Some(word) => {
                        problems.error_with_hint(&key.span, message, format!("did you mean `{word}`?"));
                    }
                    None => problems.error(&key.span, message),
                }
            }
        }
        problems.finish().map(|_| settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_read() {
        let read = |text: &str| LibrarySettings::read(text.as_bytes().to_vec()).map(|read| read.leaderboard);
        assert_eq!(read("leaderboard: split\n").unwrap(), Some(Layout::Split));
        assert_eq!(read("leaderboard: single\n").unwrap(), Some(Layout::Single));
        assert_eq!(read("# nothing\n").unwrap(), None);
        let details =
            |text: &str| LibrarySettings::read(text.as_bytes().to_vec()).map(|read| read.case_details);
        assert_eq!(details("case_details: false\n").unwrap(), Some(false));
        assert!(details("case_details: maybe\n").is_err());
        insta::assert_snapshot!(read("leaderboards: split\nleaderboard: one\n").unwrap_err().to_string(), @"
        `leaderboard`: expected `split` or `single`
          --> .evaluator/config.yaml:2:14
           |
         2 | leaderboard: one
           |              ^^^

        error: unknown key `leaderboards`; legal are `leaderboard` and `case_details`
          --> .evaluator/config.yaml:1:1
           |
         1 | leaderboards: split
           | ^^^^^^^^^^^^

        hint: did you mean `leaderboard`?
        ");
    }
}
