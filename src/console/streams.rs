//! Data goes to stdout, everything else to stderr. In an Actions step, no output is interpreted as a
//! command.

use std::io::{ErrorKind, Result, Write};

use serde::Serialize;

use super::actions::{self, Annotation, annotate};
use crate::model::printable_lines;

/// Writes data. A closed pipe is not an error.
pub fn stdout(text: &str) -> anyhow::Result<()> {
    if actions::is_step() { to_stdout(actions::inert(text).as_bytes()) } else { to_stdout(text.as_bytes()) }
}

/// Writes JSON.
pub fn json(json: &str) -> anyhow::Result<()> {
    Stdout.write_all(json.as_bytes())?;
    Ok(Stdout.flush()?)
}

/// Writes an indented JSON document.
pub fn json_document(value: &impl Serialize) -> anyhow::Result<()> {
    json(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

fn to_stdout(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(unless_closed(out.write_all(bytes).and_then(|()| out.flush()), ())?)
}

/// Stdout for JSON lines. A closed pipe is not an error.
#[derive(Debug)]
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut out = std::io::stdout().lock();
        if actions::is_step() {
            return unless_closed(
                out.write_all(&actions::inert_json(bytes)).map(|()| bytes.len()),
                bytes.len(),
            );
        }
        unless_closed(out.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        unless_closed(std::io::stdout().lock().flush(), ())
    }
}

fn unless_closed<T>(written: Result<T>, closed: T) -> Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(closed),
        written => written,
    }
}

/// Prints an error that does not end the command.
pub fn error(text: &str) {
    if !annotate(Annotation::Error, text) {
        stderr(&format!("error: {text}\n\n"));
    }
}

/// Prints a message. Control characters are escaped, because file names may contain them. A failed write is
/// ignored.
pub fn stderr(text: &str) {
    let text = &printable_lines(text);
    let text = if actions::is_step() { &actions::inert(text) } else { text };
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
