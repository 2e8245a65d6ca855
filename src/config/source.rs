//! A source file, and positions in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Invalid, Problems};

/// A source file.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// As the user would name it.
    pub path: PathBuf,
    /// Its whole text.
    pub text: String,
}

impl Source {
    /// A file with this text; `path` is only for messages.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The bytes of a file as text, without a byte order mark; the error points at the first byte that is not UTF-8.
    pub fn decode(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self, Invalid> {
        let path = path.into();
        let error = match String::from_utf8(bytes) {
            Ok(mut text) => {
                if text.starts_with('\u{feff}') {
                    text.drain(..'\u{feff}'.len_utf8());
                }
                return Ok(Self { path, text });
            }
            Err(error) => error,
        };
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        let source = Arc::new(Self { path, text: String::from_utf8_lossy(error.as_bytes()).into() });
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let span = Span { source, line: small(line), column: small(column), width: 1 };
        let mut problems = Problems::default();
        problems.error_with_hint(&span, "the text is not UTF-8", "save the file as UTF-8");
        Err(problems.check(()).expect_err("an error was noted"))
    }

    /// A line, counted from 1.
    pub fn line(&self, number: u32) -> Option<&str> {
        self.text.lines().nth(number as usize - 1)
    }
}

/// A position in a file; line and column count from 1, in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub source: Arc<Source>,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// The width in characters.
    pub width: u32,
}

impl Span {
    /// The whole of a line.
    pub fn of_line(source: &Arc<Source>, line: u32) -> Self {
        let width = source.line(line).map_or(1, |text| text.chars().count());
        Self { source: Arc::clone(source), line, column: 1, width: u32::try_from(width).unwrap_or(u32::MAX) }
    }
}

/// The path as the user would name it: relative to `base` where it is below it.
pub fn shown(path: &Path, base: &Path) -> PathBuf {
    path.strip_prefix(base).map_or_else(|_| path.to_path_buf(), Path::to_path_buf)
}
