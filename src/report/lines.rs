//! Reads a JSONL file line by line; errors have their position.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::model::{Failure, printable};
use crate::util::regular_file;
use crate::util::truncate::truncate;

/// The longest line that is read: no model answer is that long.
const LONGEST_LINE: u64 = 256 << 20;
/// How much of serde's message is repeated.
const LONGEST_MESSAGE: usize = 300;

/// Passes every line to `take`; its error becomes an error of the line.
pub(super) fn each_line<T: DeserializeOwned>(
    path: &Path,
    shown: &str,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::config(format!("cannot read `{shown}`: {error}"));
    let mut reader = BufReader::with_capacity(1 << 16, regular_file::open(path).map_err(unreadable)?.0);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let invalid = |message: &str, column: Option<usize>| {
            let message = truncate(&printable(message), LONGEST_MESSAGE);
            let column = column.map(|column| format!(":{column}")).unwrap_or_default();
            Failure::config(format!("invalid row: {message}\n  --> {shown}:{number}{column}"))
                .hint("`eval` writes this file, one JSON object per line: run it again")
        };
        let value = serde_json::from_slice(&line).map_err(|error| {
            let message = error.to_string();
            // Its position follows, with the line counted within the line.
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            invalid(message, Some(error.column()))
        })?;
        take(value).map_err(|message| invalid(&message, None))?;
    }
    Ok(())
}

/// The number of lines in a file; 0 if it cannot be read.
pub(super) fn count(path: &Path) -> usize {
    let Ok((mut file, _)) = regular_file::open(path) else { return 0 };
    let mut buffer = vec![0; 1 << 16];
    let mut lines = 0;
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        lines += memchr::memchr_iter(b'\n', &buffer[..length]).count();
    }
    lines
}
