//! The journal: every response, appended the moment it arrives.
//!
//! A line is written with one call, so that a killed process leaves at most one torn line, the last; opening cuts that
//! off. The disk is synced in the background a few times a second, and when the journal is closed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

use crate::exchange::whole_lines;

/// How long an answered call may wait for the disk.
const SYNC_EVERY: Duration = Duration::from_millis(250);

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    dirty: Option<Sender<()>>,
    syncer: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens or creates a journal, without a torn last line.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot open the journal `{}`", path.display());
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).open(path).with_context(cannot)?;
        let length = whole_lines(&mut file).with_context(cannot)?;
        file.set_len(length).with_context(cannot)?;
        let (dirty, wake) = channel();
        let handle = file.try_clone().with_context(cannot)?;
        let syncer = std::thread::spawn(move || {
            while wake.recv().is_ok() {
                // Everything that arrives meanwhile is served by one sync.
                let closed = wait_and_drain(&wake);
                if let Err(error) = handle.sync_data() {
                    tracing::warn!("cannot sync the journal: {error}");
                }
                if closed {
                    return;
                }
            }
        });
        Ok(Self { path: path.to_owned(), file, length, dirty: Some(dirty), syncer: Some(syncer) })
    }

    /// Hears every line there is, with its offset.
    pub(super) fn read(&self, mut each: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, File::open(&self.path)?);
        let (mut offset, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if read == 0 || line.last() != Some(&b'\n') {
                return Ok(());
            }
            each(offset, &line[..read - 1])?;
            offset += read as u64;
        }
    }

    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The line at an offset.
    pub(super) fn line_at(&self, offset: u64) -> anyhow::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut line = Vec::new();
        BufReader::new(file).read_until(b'\n', &mut line)?;
        line.pop();
        Ok(line)
    }

    /// Appends whole lines, each ending in a newline, and tells the offset of the first.
    pub(super) fn append(&mut self, lines: &[u8]) -> anyhow::Result<u64> {
        let offset = self.length;
        let written = self.file.write_all(lines);
        if written.is_err() {
            // Half a line would spoil the next one.
            let _ = self.file.set_len(offset);
        }
        written.with_context(|| format!("cannot write to the journal `{}`", self.path.display()))?;
        self.length += lines.len() as u64;
        if let Some(dirty) = &self.dirty {
            // A syncer that is gone has said why.
            let _ = dirty.send(());
        }
        Ok(offset)
    }

    /// Waits until all of it is on the disk.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        self.dirty = None;
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
        self.file.sync_data().context("cannot sync the journal")
    }
}

/// Waits one interval; whether the journal was closed meanwhile.
fn wait_and_drain(wake: &std::sync::mpsc::Receiver<()>) -> bool {
    let until = std::time::Instant::now() + SYNC_EVERY;
    loop {
        match wake.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(journal: &Journal) -> Vec<String> {
        let mut lines = Vec::new();
        journal
            .read(|offset, line| {
                assert_eq!(journal.line_at(offset).unwrap(), line);
                lines.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            })
            .unwrap();
        lines
    }

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        for (text, kept) in
            [("", 0), ("a\nb\n{\"id\"", 2), ("torn", 0), (&format!("a\n{}", "x".repeat(200_000)), 1)]
        {
            std::fs::write(&path, text).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!(lines(&journal).len(), kept, "{}", &text[..text.len().min(20)]);
            journal.append(b"next\n").unwrap();
            journal.close().unwrap();
            assert_eq!(lines(&journal).last().unwrap(), "next");
        }
    }
}
