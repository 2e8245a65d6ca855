//! The intermediate results of each row between two passes, in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::scoring::GraderReply;

/// The results of a row so far, by the position of the grader.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    /// The results.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) given: BTreeMap<String, GraderReply>,
    /// The model requests of the last pass: the position, and the target that the grader names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asked: Vec<(String, Option<String>)>,
}

/// The notes of the previous pass.
pub(super) struct PreviousNotes {
    lines: Option<BufReader<File>>,
    line: String,
}

impl PreviousNotes {
    /// Reads notes from the start; without a file, every note is empty.
    pub(super) fn open(file: Option<File>) -> Self {
        Self { lines: file.map(|file| BufReader::with_capacity(1 << 16, file)), line: String::new() }
    }

    /// The note of the next row.
    pub(super) fn next(&mut self) -> anyhow::Result<Note> {
        let Some(lines) = &mut self.lines else { return Ok(Note::default()) };
        self.line.clear();
        lines.read_line(&mut self.line).context("cannot read the notes of the grading")?;
        if self.line.trim().is_empty() {
            return Ok(Note::default());
        }
        serde_json::from_str(&self.line).context("cannot read the notes of the grading")
    }
}

/// The notes of this pass.
pub(super) struct Notes(BufWriter<File>);

impl Notes {
    pub(super) fn create() -> anyhow::Result<Self> {
        let file = tempfile::tempfile().context("cannot create a temporary file")?;
        Ok(Self(BufWriter::with_capacity(1 << 16, file)))
    }

    /// Writes the note of the next row.
    pub(super) fn push(&mut self, note: &Note) -> anyhow::Result<()> {
        if !note.given.is_empty() || !note.asked.is_empty() {
            serde_json::to_writer(&mut self.0, note)?;
        }
        self.0.write_all(b"\n").context("cannot write the notes of the grading")
    }

    /// The file, rewound.
    pub(super) fn finish(self) -> anyhow::Result<File> {
        use std::io::Seek as _;
        let mut file = self.0.into_inner().context("cannot write the notes of the grading")?;
        file.rewind()?;
        Ok(file)
    }
}
