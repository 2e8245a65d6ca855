//! The journal of each shard: a plain file inside the repository's directory, so that copies of the exchange include it.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::damage::{RowPlace, keep_copy, set_aside};
use super::local::must_match;
use super::{LocalExchange, row_mark};
use crate::model::{BatchId, Digest, Exit, Failure};
use crate::protocol::RowSeal;
use crate::util::durable;

/// The file that says which batch a journal belongs to.
const CLAIM: &str = "batch.sha256";

/// The exclusive right to run one shard, until it is dropped or the process ends.
#[derive(Debug)]
pub struct ShardLock {
    _file: File,
}

impl LocalExchange {
    /// The path of a shard's journal; creates the directory but not the file.
    pub fn journal_path(&self, id: &BatchId, shard: u32) -> anyhow::Result<PathBuf> {
        self.make_journal_dir(id)?;
        Ok(self.journal_file(id, shard))
    }

    /// Passes all rows of a shard's journal to a function, without line feeds, unless it belongs to another batch.
    pub fn each_journal_row(
        &self,
        id: &BatchId,
        batch: Digest,
        shard: u32,
        mut each: impl FnMut(&RowPlace<'_>, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Without a valid claim, the checksum of each row decides.
        if self.claimed_batch(id)?.is_some_and(|owner| owner != batch) {
            return Ok(());
        }
        let path = self.journal_file(id, shard);
        let Some(journal) = open_journal(&path)? else { return Ok(()) };
        let file = path.display().to_string();
        each_line(journal, |line, _, row| each(&RowPlace { file: &file, line }, row))
            .with_context(|| format!("cannot read the journal `{file}`"))
    }

    /// Writes the rows of a shard's journal that are missing on the results branch to the file `to`; only complete rows of this
    /// batch.
    pub fn unpublished(&self, id: &BatchId, batch: Digest, shard: u32, to: &Path) -> anyhow::Result<()> {
        let mut published = HashSet::new();
        self.each_row(id, |of_shard, _, line| {
            if of_shard == shard {
                published.insert(row_mark(line));
            }
            Ok(())
        })?;
        let cannot = || format!("cannot write the rows to `{}`", to.display());
        let mut out = BufWriter::with_capacity(1 << 16, File::create(to).with_context(cannot)?);
        let seal = RowSeal::of(batch);
        self.each_journal_row(id, batch, shard, |_, row| {
            let is_new = published.is_empty() || !published.contains(&row_mark(row));
            if is_new && seal.index(row)?.is_some() {
                out.write_all(row).and_then(|()| out.write_all(b"\n")).with_context(cannot)?;
            }
            Ok(())
        })?;
        out.flush().with_context(cannot)
    }

    /// Removes everything from a shard's journal that is not a complete row of this batch, and keeps the original. An unterminated
    /// last line is removed without a warning: a killed run was writing it.
    pub fn clean_journal(&self, id: &BatchId, batch: Digest, shard: u32) -> anyhow::Result<()> {
        let path = self.journal_file(id, shard);
        let cannot = || format!("cannot read the journal `{}`", path.display());
        let seal = RowSeal::of(batch);
        let (mut damaged, mut rows) = (Vec::new(), 0_u64);
        let Some(journal) = open_journal(&path)? else { return Ok(()) };
        each_line(journal, |number, is_clean, row| {
            rows += 1;
            if !is_clean || seal.index(row)?.is_none() {
                damaged.push(number);
            }
            Ok(())
        })
        .with_context(cannot)?;
        let Some(first) = damaged.first() else { return Ok(()) };
        let problem = match damaged.len() {
            1 => format!("line {first} of {rows}"),
            others => format!("{others} of {rows} lines, the first is line {first}"),
        };
        keep_copy(self.path(), &path, &problem)?;
        let Some(journal) = open_journal(&path)? else { return Ok(()) };
        let cannot = || format!("cannot write the journal `{}`", path.display());
        let mut out = BufWriter::new(durable::temporary_for(&path).with_context(cannot)?);
        each_line(journal, |_, _, row| {
            if seal.index(row)?.is_some() {
                out.write_all(row)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })
        .with_context(cannot)?;
        let out = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(cannot)?;
        durable::persist(out, &path).with_context(cannot)
    }

    /// Appends the rows of a shard's journal from an offset to the file `to`; returns the journal's length.
    pub fn copy_journal(&self, id: &BatchId, shard: u32, from: u64, to: &Path) -> anyhow::Result<u64> {
        let path = self.journal_file(id, shard);
        let cannot = || format!("cannot read the journal `{}`", path.display());
        let mut journal = match File::open(&path) {
            Ok(journal) => journal,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error).with_context(cannot),
        };
        let length = whole_lines(&mut journal).with_context(cannot)?;
        let from = from.min(length);
        journal.seek(SeekFrom::Start(from)).with_context(cannot)?;
        let mut out = OpenOptions::new().create(true).append(true).open(to).with_context(cannot)?;
        io::copy(&mut journal.take(length - from), &mut out).with_context(cannot)?;
        Ok(length)
    }

    /// Records which batch a journal belongs to. Rows of another batch with the same id would count as responses, so that is an
    /// error (exit 3).
    pub fn claim_journal(&self, id: &BatchId, batch: Digest) -> anyhow::Result<()> {
        if let Some(owner) = self.results_batch(id)? {
            must_match(id, owner, batch)?;
        }
        match self.claimed_batch(id)? {
            Some(owner) if owner == batch => return Ok(()),
            Some(owner) => {
                let message = format!("the journal of `{id}` belongs to another batch: {owner}, not {batch}");
                return Err(Failure::config(message).hint("choose another `--batch-id`").into());
            }
            None => {}
        }
        let path = self.make_journal_dir(id)?.join(CLAIM);
        if path.exists() {
            set_aside(self.path(), &path, "its checksum does not match")?;
        }
        durable::write(&path, claim(batch).as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// The batch that claimed the journal; `None` if there is no valid claim.
    pub(super) fn claimed_batch(&self, id: &BatchId) -> anyhow::Result<Option<Digest>> {
        let path = self.journal_dir(id).join(CLAIM);
        match fs::read(&path) {
            Ok(text) => Ok(parse_claim(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// The number of lines in the journals of a batch.
    pub(super) fn journal_rows(&self, id: &BatchId) -> anyhow::Result<u64> {
        let mut rows = 0;
        for entry in fs::read_dir(self.journal_dir(id)).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "jsonl") {
                each_line(File::open(entry.path())?, |_, _, _| {
                    rows += 1;
                    Ok(())
                })?;
            }
        }
        Ok(rows)
    }

    /// Deletes the journals of a batch.
    pub(super) fn delete_journals(&self, id: &BatchId) -> anyhow::Result<()> {
        let dir = self.journal_dir(id);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete `{}`", dir.display()))
            }
            _ => Ok(()),
        }
    }

    /// Locks a shard; fails at once if another runner has it (exit 6).
    pub fn lock(&self, id: &BatchId, shard: u32) -> Result<ShardLock, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::Failure, format!("cannot lock shard {shard} of batch `{id}`: {error}"))
        };
        let dir = self.make_journal_dir(id).map_err(|error| cannot(&format!("{error:#}")))?;
        let path = dir.join(format!("shard-{shard:03}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|error| cannot(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(ShardLock { _file: file }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("shard {shard} of batch `{id}` is being run by another process");
                Err(Failure::new(Exit::Busy, message)
                    .hint("wait until it ends, or choose another `--batch-id`"))
            }
            Err(TryLockError::Error(error)) => Err(cannot(&error)),
        }
    }

    fn journal_file(&self, id: &BatchId, shard: u32) -> PathBuf {
        self.journal_dir(id).join(format!("shard-{shard:03}.jsonl"))
    }

    fn journal_dir(&self, id: &BatchId) -> PathBuf {
        self.journals().join(id.as_str())
    }

    /// The folder of all journals.
    pub(super) fn journals(&self) -> PathBuf {
        self.path().join("journal")
    }

    fn make_journal_dir(&self, id: &BatchId) -> anyhow::Result<PathBuf> {
        let dir = self.journal_dir(id);
        durable::create_dir_all(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        Ok(dir)
    }
}

/// The text of a claim: the batch digest and its checksum.
fn claim(batch: Digest) -> String {
    format!("{batch} {:016x}\n", row_mark(batch.to_string().as_bytes()))
}

fn parse_claim(text: &[u8]) -> Option<Digest> {
    let batch = std::str::from_utf8(text).ok()?.split(' ').next()?.parse().ok()?;
    (claim(batch).as_bytes() == text).then_some(batch)
}

/// Opens the file, if it exists.
fn open_journal(path: &Path) -> anyhow::Result<Option<File>> {
    match File::open(path) {
        Ok(journal) => Ok(Some(journal)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read the journal `{}`", path.display())),
    }
}

/// Passes all complete lines to a function, numbered and without line feeds and leading zeros, which a lost disk block leaves.
/// Returns whether there were no such zeros.
fn each_line(
    journal: impl Read,
    mut each: impl FnMut(u64, bool, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, journal);
    let (mut number, mut line) = (0, Vec::new());
    // A killed run was writing an unterminated line.
    while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        number += 1;
        let zeros = line.iter().take_while(|byte| **byte == 0).count();
        each(number, zeros == 0, &line[zeros..line.len() - 1])?;
        line.clear();
    }
    Ok(())
}

/// The length of a file up to its last newline, without an unterminated line of a killed run.
pub fn whole_lines(file: &mut File) -> io::Result<u64> {
    const STEP: u64 = 1 << 16;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        Read::take(&mut *file, end - start).read_to_end(&mut chunk)?;
        if let Some(at) = memchr::memrchr(b'\n', &chunk) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
