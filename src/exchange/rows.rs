//! Results files: response lines, compressed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Seek as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::bufread::GzDecoder;
use tempfile::SpooledTempFile;

use crate::archive::compressor;

/// A results file is closed at the first line end after this many bytes, so that it stays far below what git hosts take.
pub(super) const FULL: u64 = 64 << 20;
/// The most bytes of a results file, decompressed; a row that is longer than all this is refused when it is written.
pub(super) const LONGEST: u64 = 1 << 30;

/// The longest row that is read: far more than the longest answer takes, however it is written down.
const LONGEST_ROW: usize = 256 << 20;

const BUFFER: usize = 1 << 16;
/// Compressed rows up to this size wait in memory, larger ones on disk.
const SPOOL: usize = 1 << 20;

/// A results file that is ready to be committed.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: SpooledTempFile,
    pub(super) size: u64,
    pub(super) rows: u64,
}

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowsError {
    /// The results file is not what it should be.
    #[error("{0}")]
    Damaged(String),
    /// The rows cannot be written down here.
    #[error("cannot write the rows")]
    Unwritable(#[source] std::io::Error),
    /// Whoever hears the rows does not go on.
    #[error(transparent)]
    Unheard(anyhow::Error),
}

/// Compresses a JSONL file into as many results files as it needs; an empty file needs none.
pub(super) fn compress(rows: &Path, full: u64, longest: u64) -> anyhow::Result<Vec<Part>> {
    let cannot_read = || format!("cannot read the rows in `{}`", rows.display());
    let mut from = BufReader::with_capacity(BUFFER, File::open(rows).with_context(cannot_read)?);
    let mut parts = Vec::new();
    while !from.fill_buf().with_context(cannot_read)?.is_empty() {
        parts.push(compress_part(&mut from, full, longest).with_context(cannot_read)?);
    }
    Ok(parts)
}

fn compress_part(from: &mut BufReader<File>, full: u64, longest: u64) -> anyhow::Result<Part> {
    let mut gzip = compressor(SpooledTempFile::new(SPOOL));
    let (mut bytes, mut rows, mut last) = (0, 0, b'\n');
    while bytes < full || last != b'\n' {
        let buffer = from.fill_buf()?;
        let line = if bytes < full { None } else { memchr::memchr(b'\n', buffer) };
        let taken = line.map_or(buffer, |end| &buffer[..=end]);
        let Some(end) = taken.last() else {
            break;
        };
        last = *end;
        rows += memchr::memchr_iter(b'\n', taken).count() as u64;
        bytes += taken.len() as u64;
        anyhow::ensure!(bytes <= longest, "a row is longer than {longest} bytes");
        gzip.write_all(taken)?;
        let length = taken.len();
        from.consume(length);
    }
    if last != b'\n' {
        // The next file's first row must not continue this one's last.
        gzip.write_all(b"\n")?;
        rows += 1;
    }
    let mut file = gzip.finish()?;
    let size = std::io::Seek::stream_position(&mut file)?;
    Ok(Part { file, size, rows })
}

/// Decompresses a results file and appends its rows, each with its line feed.
pub(super) fn append(from: impl Read, longest: u64, to: &mut impl Write) -> Result<(), RowsError> {
    let damaged = |error: std::io::Error| RowsError::Damaged(format!("it is damaged: {error}"));
    let mut gzip = GzDecoder::new(BufReader::with_capacity(BUFFER, from));
    let mut buffer = vec![0; BUFFER];
    let (mut bytes, mut last) = (0, b'\n');
    loop {
        let length = gzip.read(&mut buffer).map_err(damaged)?;
        let Some(end) = buffer[..length].last() else {
            break;
        };
        last = *end;
        bytes += length as u64;
        if bytes > longest {
            return Err(RowsError::Damaged(format!("it unpacks to more than {longest} bytes")));
        }
        to.write_all(&buffer[..length]).map_err(RowsError::Unwritable)?;
    }
    if last != b'\n' {
        to.write_all(b"\n").map_err(RowsError::Unwritable)?;
    }
    if gzip.into_inner().read(&mut [0]).map_err(damaged)? > 0 {
        return Err(RowsError::Damaged("it is damaged: something follows its end".to_owned()));
    }
    Ok(())
}

/// Decompresses a results file and hands its rows over, each without its line feed; an empty one for what is too long.
pub(super) fn each(
    from: impl Read,
    longest: u64,
    each: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> Result<(), RowsError> {
    let mut lines = Lines { row: Vec::new(), too_long: false, each, failed: None };
    match (append(from, longest, &mut lines), lines.failed) {
        (_, Some(error)) => Err(RowsError::Unheard(error)),
        (appended, None) => appended,
    }
}

/// Cuts what is written to it into lines.
struct Lines<'e> {
    row: Vec<u8>,
    too_long: bool,
    each: &'e mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    failed: Option<anyhow::Error>,
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        self.too_long |= self.row.len() + part.len() > LONGEST_ROW;
        if self.too_long {
            self.row = Vec::new();
        } else {
            self.row.extend(part);
        }
        let Some(end) = end else { return Ok(bytes.len()) };
        let heard = (self.each)(&self.row);
        self.row.clear();
        self.too_long = false;
        if let Err(error) = heard {
            self.failed = Some(error);
            return Err(std::io::Error::other("a row is not taken"));
        }
        Ok(end + 1)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compresses a JSONL file of rows into files in `dir`, as many as it needs, as results artifacts carry them.
pub fn compress_rows(rows: &Path, dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for mut part in compress(rows, FULL, LONGEST)? {
        let path = dir.join(format!("{:04}.jsonl.gz", paths.len() + 1));
        let cannot = || format!("cannot write the rows to `{}`", path.display());
        part.file.rewind().with_context(cannot)?;
        let mut to = File::create(&path).with_context(cannot)?;
        std::io::copy(&mut part.file, &mut to).with_context(cannot)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Appends the rows of a compressed file, which may be anybody's, to the file `to`; on an error nothing is added.
pub fn decompress_rows(from: &Path, to: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write the rows to `{}`", to.display());
    let compressed = File::open(from).with_context(|| format!("cannot read `{}`", from.display()))?;
    let mut out = OpenOptions::new().create(true).append(true).open(to).with_context(cannot)?;
    let length = out.metadata().with_context(cannot)?.len();
    let appended = append(compressed, LONGEST, &mut out);
    if appended.is_err() {
        out.set_len(length).with_context(cannot)?;
    }
    appended.context("cannot read the rows of a results artifact")
}
