//! The journal of each shard: a plain file inside the repository's directory, so that a copy of the exchange carries it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::LocalExchange;
use super::local::must_match;
use crate::model::{BatchId, Digest, Exit, Failure};

/// The extension of the small file that says how much of a journal is published.
const PUBLISHED: &str = "published";
/// The file that says which batch a journal belongs to.
const CLAIM: &str = "batch.sha256";

/// The right to run one shard of a batch, until it is dropped or the process ends.
#[derive(Debug)]
pub struct ShardLock {
    _file: File,
}

impl LocalExchange {
    /// Where the runner of a shard keeps its journal; the directory is made, the file is not.
    pub fn journal_path(&self, id: &BatchId, shard: u32) -> anyhow::Result<PathBuf> {
        self.make_journal_dir(id)?;
        Ok(self.journal_file(id, shard))
    }

    /// Hands over all rows of a shard's journal, each without its line feed, if it is of this batch.
    pub fn each_journal_row(
        &self,
        id: &BatchId,
        batch: Digest,
        shard: u32,
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.claimed_batch(id)? != Some(batch) {
            return Ok(());
        }
        let path = self.journal_file(id, shard);
        let cannot = || format!("cannot read the journal `{}`", path.display());
        let journal = match File::open(&path) {
            Ok(journal) => journal,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(cannot),
        };
        let mut reader = BufReader::with_capacity(1 << 16, journal);
        let mut line = Vec::new();
        // A line without its end is where a killed run was writing.
        while reader.read_until(b'\n', &mut line).with_context(cannot)? > 0 && line.ends_with(b"\n") {
            each(&line[..line.len() - 1])?;
            line.clear();
        }
        Ok(())
    }

    /// Appends the rows of a shard's journal that are not published yet to the file `to`; tells how long the journal is.
    pub fn unpublished(&self, id: &BatchId, shard: u32, to: &Path) -> anyhow::Result<u64> {
        let marker = self.journal_file(id, shard).with_extension(PUBLISHED);
        let published = fs::read_to_string(marker).unwrap_or_default();
        // Without the branch nothing is published, whatever was.
        let branch = self.repository.tip(&self.results_branch(id))?;
        self.copy_journal(id, shard, branch.and_then(|_| published.trim().parse().ok()).unwrap_or(0), to)
    }

    /// Appends the rows of a shard's journal from an offset on to the file `to`; tells how long the journal is.
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

    /// Notes that a shard's journal is published up to here. A crash before this publishes some rows twice, which no
    /// reader minds.
    pub fn mark_published(&self, id: &BatchId, shard: u32, length: u64) -> anyhow::Result<()> {
        let path = self.journal_path(id, shard)?.with_extension(PUBLISHED);
        write_whole(&path, &length.to_string())
    }

    /// Notes which batch a journal belongs to. Rows of another batch with the same id would be taken for answers, so
    /// that is an error (exit 3).
    pub fn claim_journal(&self, id: &BatchId, batch: Digest) -> anyhow::Result<()> {
        if let Some(owner) = self.results_batch(id)? {
            must_match(id, owner, batch)?;
        }
        let path = self.make_journal_dir(id)?.join(CLAIM);
        match fs::read_to_string(&path) {
            Ok(owner) if owner.trim() == batch.to_string() => Ok(()),
            Ok(owner) => {
                let message =
                    format!("the journal of `{id}` belongs to another batch: {}, not {batch}", owner.trim());
                Err(Failure::config(message).hint("choose another `--batch-id`").into())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => write_whole(&path, &batch.to_string()),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// The batch that the journal belongs to, once a runner has claimed it.
    pub(super) fn claimed_batch(&self, id: &BatchId) -> anyhow::Result<Option<Digest>> {
        let path = self.journal_dir(id).join(CLAIM);
        match fs::read_to_string(&path) {
            Ok(owner) => Ok(owner.trim().parse().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// Takes the right to run a shard; another runner that has it makes this fail at once (exit 6).
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
        fs::create_dir_all(&dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        Ok(dir)
    }
}

/// Writes a small file that is never seen half-written.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path)).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}

/// The length of a file up to its last newline: what a killed run was writing is left out.
pub fn whole_lines(file: &mut File) -> io::Result<u64> {
    const STEP: u64 = 1 << 16;
    let mut end = file.metadata()?.len();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        let mut chunk = Vec::new();
        io::Read::take(&mut *file, end - start).read_to_end(&mut chunk)?;
        if let Some(at) = memchr::memrchr(b'\n', &chunk) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
