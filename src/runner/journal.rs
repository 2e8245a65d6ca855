//! The journal: every response is appended as soon as it arrives.
//!
//! A line is written with one system call, so a killed process leaves at most one torn line, the last;
//! opening the journal truncates it. A thread syncs it a few times a second, and closing it syncs the rest.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;

use crate::exchange::whole_lines;
use crate::util::durable::AppendFile;

/// Longest time before a response is synced.
const SYNC_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Journal {
    file: AppendFile,
    length: u64,
    dirty: Option<Sender<()>>,
    syncer: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens or creates a journal, and truncates a torn last line.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot open the journal `{}`", path.display());
        let mut file = AppendFile::open(path).with_context(cannot)?;
        let length = whole_lines(file.file_mut()).with_context(cannot)?;
        file.set_len(length).with_context(cannot)?;
        let (dirty, wake) = channel();
        let handle = file.try_clone().with_context(cannot)?;
        let syncer = std::thread::spawn(move || {
            while wake.recv().is_ok() {
                // One sync covers everything that arrives meanwhile.
                let closed = wait_and_drain(&wake);
                if let Err(error) = handle.sync() {
                    tracing::warn!("cannot sync the journal: {error}");
                }
                if closed {
                    return;
                }
            }
        });
        Ok(Self { file, length, dirty: Some(dirty), syncer: Some(syncer) })
    }

    /// Calls `each` for every line, with its offset.
    pub(super) fn read(&self, mut each: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, File::open(self.path())?);
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

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn line_at(&self, offset: u64) -> anyhow::Result<Vec<u8>> {
        let mut file = File::open(self.path())?;
        file.seek(SeekFrom::Start(offset))?;
        let mut line = Vec::new();
        BufReader::new(file).read_until(b'\n', &mut line)?;
        line.pop();
        Ok(line)
    }

    /// Appends complete lines, and returns the offset of the first.
    pub(super) fn append(&mut self, lines: &[u8]) -> anyhow::Result<u64> {
        let offset = self.length;
        let written = self.file.append(lines);
        if written.is_err() {
            // A partial line would corrupt the next one.
            let _ = self.file.set_len(offset);
        }
        written.with_context(|| format!("cannot write to the journal `{}`", self.path().display()))?;
        self.length += lines.len() as u64;
        if let Some(dirty) = &self.dirty {
            // A syncer that has ended has reported its error.
            let _ = dirty.send(());
        }
        Ok(offset)
    }

    /// Syncs everything.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        self.dirty = None;
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
        self.file.sync().context("cannot sync the journal")
    }
}

/// Waits one interval. Returns whether the journal was closed.
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
    use crate::util::durable::crash::Recording;

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
    fn a_torn_last_line_is_removed() {
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

    #[test]
    fn synced_rows_survive_every_crash_and_the_rest_is_removed_or_complete() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Recording::start(dir.path());
        let path = dir.path().join("journal.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(b"one\n").unwrap();
        journal.close().unwrap();
        disk.mark("synced");
        journal.append(b"two\nthree\n").unwrap();
        // A run that was killed there, and the next one.
        let mut journal = Journal::open(&path).unwrap();
        journal.append(b"four\n").unwrap();
        journal.close().unwrap();
        disk.mark("synced");
        let crashes = disk.crashes();
        assert!(crashes.len() > 8, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let mut journal = Journal::open(&at.path().join("journal.jsonl")).unwrap();
            let rows = lines(&journal);
            let synced = [0, 1, 4][crash.count("synced")];
            let all = ["one", "two", "three", "four"];
            assert!(rows.len() >= synced, "{crash:?}: {rows:?}");
            for (row, expected) in rows.iter().zip(all).take(synced) {
                assert_eq!(row, expected, "{crash:?}");
            }
            journal.append(b"next\n").unwrap();
            journal.close().unwrap();
            assert_eq!(lines(&journal).last().unwrap(), "next", "{crash:?}");
        }
    }
}
