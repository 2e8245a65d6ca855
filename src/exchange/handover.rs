//! The archive of a batch as the files of a hand-over branch, streamed without holding it in memory.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::LocalExchange;
use crate::git::{CommitOutcome, NewFile, ObjectId};
use crate::model::{Digest, Failure};

impl LocalExchange {
    /// Commits an archive on a new branch, in as many files as needed; a digest mismatch is an error.
    pub(super) fn commit_archive(
        &self,
        branch: &str,
        message: &str,
        archive: &Path,
        digest: Digest,
    ) -> anyhow::Result<CommitOutcome> {
        let cannot_read = || format!("cannot read the batch archive `{}`", archive.display());
        let file = File::open(archive).with_context(cannot_read)?;
        let size = file.metadata().with_context(cannot_read)?.len();
        let (parts, hasher) = (self.split.files(size), RefCell::new(Sha256::new()));
        // They read the same file, one after the other.
        let mut contents: Vec<DigestReader<'_, _>> = parts
            .iter()
            .map(|(_, size)| DigestReader { inner: (&file).take(*size), hasher: &hasher, expected: None })
            .collect();
        if let Some(last) = contents.last_mut() {
            last.expected = Some(digest);
        }
        let mut files: Vec<NewFile<'_>> = parts
            .into_iter()
            .zip(&mut contents)
            .map(|((path, size), content)| NewFile { path, size, content })
            .collect();
        self.repository.commit(branch, None, message, &mut files)
    }

    /// Streams the archive's files in a commit to `read`, in order, and returns their total length; `None` if there is no archive.
    /// A commit with unexpected or too large parts is an error (exit 3).
    pub(super) fn read_archive(
        &self,
        commit: &ObjectId,
        branch: &str,
        mut read: impl FnMut(&mut dyn Read) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<u64>> {
        let not_whole = |problem: String| {
            Failure::config(format!("the batch on the branch `{branch}` cannot be read: {problem}"))
                .hint("delete the branch, or choose another `--batch-id`")
        };
        let names = self.repository.list(commit, "")?.unwrap_or_default();
        let names = self.split.select(&names).map_err(not_whole)?;
        let mut bytes = None;
        for name in &names {
            let found = self.repository.read_blob(&format!("{commit}:{name}"), |size, content| {
                let sum = self.split.add(bytes.unwrap_or(0), name, size).map_err(not_whole)?;
                read(content)?;
                Ok(sum)
            })?;
            let is_file = || not_whole(format!("`{name}` is not a file"));
            bytes = Some(found.ok_or_else(is_file)?);
        }
        Ok(bytes)
    }
}

/// Reads a part of a file; the end of the last part fails if the digest does not match.
struct DigestReader<'f, R> {
    inner: R,
    hasher: &'f RefCell<Sha256>,
    expected: Option<Digest>,
}

impl<R: Read> Read for DigestReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let mut hasher = self.hasher.borrow_mut();
        hasher.update(&buffer[..length]);
        match self.expected {
            Some(expected) if length == 0 && Digest::finish(hasher.clone()) != expected => {
                Err(io::Error::other(format!("its digest is not {expected}")))
            }
            _ => Ok(length),
        }
    }
}
