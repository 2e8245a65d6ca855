//! Format numbers. Dispatcher and runner may be different versions of run-evals. Each rejects a format that
//! it cannot read, and names both versions.

use std::fmt;

use serde_json::Value;

use super::PROGRAM;
use crate::model::printable;
use crate::util::truncate::truncate;

/// Format of a batch: its archive and manifest.
pub const BATCH_FORMAT: u32 = 1;
/// Format of results: rows, and the other files on a results branch.
pub const RESULTS_FORMAT: u32 = 1;

/// Limit for another program's name in a message.
const LONGEST_NAME: usize = 60;

/// An unsupported format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct OtherFormat {
    found: u64,
    read: u32,
    writer: Option<String>,
}

impl OtherFormat {
    pub const HINT: &str =
        "use the same version of run-evals for dispatcher and runner: update the older one";

    pub(super) fn check(found: u64, read: u32) -> Result<(), Self> {
        if found == u64::from(read) { Ok(()) } else { Err(Self { found, read, writer: None }) }
    }

    /// Checks the `format` of a JSON document, in which the key `writer` names the program that wrote it. A
    /// document without a format fails when the rest of it is read.
    pub fn check_document(document: &Value, read: u32, writer: &str) -> Result<(), Self> {
        let Some(found) = document.get("format").and_then(Value::as_u64) else { return Ok(()) };
        let writer = document.get(writer).and_then(Value::as_str);
        let writer = writer.map(|name| truncate(&printable(name), LONGEST_NAME));
        Self::check(found, read).map_err(|other| Self { writer, ..other })
    }
}

impl fmt::Display for OtherFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "has format {}", self.found)?;
        if let Some(writer) = &self.writer {
            write!(f, " (written by {writer})")?;
        }
        write!(f, ", but {PROGRAM} reads format {}", self.read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_are_named() {
        let check = |document: &Value| OtherFormat::check_document(document, 3, "runner");
        let told = |document: &Value| check(document).unwrap_err().to_string().replace(PROGRAM, "PROGRAM");
        assert_eq!(told(&json!({"format": 2})), "has format 2, but PROGRAM reads format 3");
        assert_eq!(
            told(&json!({"format": 4, "runner": "run-evals 9.9\n::error::"})),
            "has format 4 (written by run-evals 9.9\\n::error::), but PROGRAM reads format 3"
        );
        for readable in [json!({"format": 3}), json!({}), json!([])] {
            assert_eq!(check(&readable), Ok(()));
        }
    }
}
