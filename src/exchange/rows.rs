//! Results files: response rows as plain JSONL, so that GitHub shows them and git compresses them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Context as _;

/// The most bytes of a file on a results branch, unless a single row is longer.
pub(super) const FULL: u64 = 4_000_000;
/// The most bytes of the rows in one artifact, unless a single row is longer.
const FULL_ARTIFACT: u64 = 64 << 20;
/// The longest row and the longest results file: far more than the longest answer needs.
pub(super) const LONGEST: u64 = 256 << 20;

const BUFFER: usize = 1 << 16;

/// A JSONL file, split between rows into results files.
#[derive(Debug)]
pub struct RowParts {
    file: File,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    start: u64,
    end: u64,
    rows: u64,
    /// The line feed that the last row lacks, or nothing.
    ending: &'static [u8],
}

/// The content of one results file.
#[derive(Debug)]
pub struct RowPart<'f> {
    /// How many bytes it has.
    pub size: u64,
    file: &'f File,
    at: u64,
    end: u64,
    ending: &'static [u8],
}

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowsError {
    /// The results file is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller stopped.
    #[error(transparent)]
    Stopped(anyhow::Error),
}

impl RowParts {
    /// The rows of a JSONL file, as stored in artifacts.
    pub fn for_artifacts(rows: &Path) -> anyhow::Result<Self> {
        Self::of(rows, FULL_ARTIFACT, LONGEST)
    }

    /// The rows of a JSONL file in parts of at most `full` bytes; an empty file has none. A row longer than `longest` bytes is an
    /// error.
    pub(super) fn of(rows: &Path, full: u64, longest: u64) -> anyhow::Result<Self> {
        let cannot_read = || format!("cannot read the rows in `{}`", rows.display());
        let file = File::open(rows).with_context(cannot_read)?;
        let (mut parts, mut at) = (Vec::<Part>::new(), 0);
        let mut reader = BufReader::with_capacity(BUFFER, &file);
        loop {
            let length = reader.skip_until(b'\n').with_context(cannot_read)? as u64;
            if length == 0 {
                break;
            }
            anyhow::ensure!(length <= longest, "{}: a row is longer than {longest} bytes", cannot_read());
            match parts.last_mut() {
                Some(part) if at + length - part.start <= full => {
                    part.end = at + length;
                    part.rows += 1;
                }
                _ => parts.push(Part { start: at, end: at + length, rows: 1, ending: b"" }),
            }
            at += length;
        }
        if let Some(last) = parts.last_mut() {
            let mut end = [0];
            file.read_exact_at(&mut end, at - 1).with_context(cannot_read)?;
            // A row that is added later must not continue this one.
            last.ending = if end == *b"\n" { b"" } else { b"\n" };
        }
        Ok(Self { file, parts })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// The results files.
    pub fn iter(&self) -> impl Iterator<Item = RowPart<'_>> {
        self.parts.iter().map(|part| {
            let Part { start, end, ending, .. } = *part;
            RowPart { size: end - start + ending.len() as u64, file: &self.file, at: start, end, ending }
        })
    }
}

impl Read for RowPart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end {
            return self.ending.read(buffer);
        }
        let most = usize::try_from(self.end - self.at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let length = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// Passes the rows of a results file to a function, without line feeds; a too long one is passed as empty.
pub(super) fn each(
    from: impl Read,
    longest: u64,
    each: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> Result<(), RowsError> {
    let unreadable = |error: io::Error| RowsError::Damaged(error.to_string());
    let mut reader = BufReader::with_capacity(BUFFER, from);
    let mut row = Vec::new();
    while (&mut reader).take(longest).read_until(b'\n', &mut row).map_err(unreadable)? > 0 {
        if row.pop() != Some(b'\n') {
            row.clear();
            if reader.skip_until(b'\n').map_err(unreadable)? == 0 {
                return Err(RowsError::Damaged("its last row is torn".to_owned()));
            }
        }
        each(&row).map_err(RowsError::Stopped)?;
        row.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_are_small_and_have_every_row(rows in proptest::collection::vec("[a-z]{0,30}", 0..40), torn: bool) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = rows.iter().flat_map(|row| [row.as_str(), "\n"]).collect::<String>();
            let is_torn = torn && text.len() > 1 && !text.ends_with("\n\n");
            std::fs::write(file.path(), if is_torn { &text[..text.len() - 1] } else { &text }).unwrap();
            let parts = RowParts::of(file.path(), 50, 31).unwrap();
            prop_assert_eq!(parts.rows(), rows.len() as u64);
            let mut joined = String::new();
            for mut part in parts.iter() {
                let start = joined.len();
                part.read_to_string(&mut joined).unwrap();
                prop_assert_eq!(part.size, (joined.len() - start) as u64);
                prop_assert!(part.size <= 51 && joined.ends_with('\n'));
            }
            prop_assert_eq!(&joined, &text);
            let mut heard = Vec::new();
            let each_row = &mut |row: &[u8]| {
                heard.push(String::from_utf8(row.to_vec()).unwrap());
                Ok(())
            };
            each(joined.as_bytes(), 31, each_row).unwrap();
            prop_assert_eq!(heard, rows);
        }
    }

    #[test]
    fn too_long_or_torn_lines_are_not_rows() {
        let mut heard = Vec::new();
        let each_row = &mut |row: &[u8]| {
            heard.push(row.len());
            Ok(())
        };
        let read = each(&b"12345\n123456\n1\n12"[..], 6, each_row);
        assert_eq!(read.unwrap_err().to_string(), "its last row is torn");
        assert_eq!(heard, [5, 0, 1]);
    }
}
