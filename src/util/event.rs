//! The event that started a workflow run: a file that GitHub writes.

use std::path::Path;

use serde_json::Value;

use super::regular_file;
use crate::model::{Failure, printable};

/// GitHub's own limit for inputs is far lower.
const LONGEST: u64 = 16 << 20;

/// Reads an event. Errors have the position but not the text, because it may contain a key.
pub fn read(path: &Path) -> Result<Value, Failure> {
    let cannot = |problem: String| {
        let shown = printable(&path.to_string_lossy());
        Failure::config(format!("cannot read the event `{shown}`: {problem}"))
    };
    let text = regular_file::read(path, LONGEST).map_err(|error| cannot(error.to_string()))?;
    serde_json::from_slice(&text)
        .map_err(|error| cannot(format!("invalid JSON at line {}, column {}", error.line(), error.column())))
}
