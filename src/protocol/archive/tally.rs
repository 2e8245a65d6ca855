//! Counts and hashes a stream.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use crate::model::Digest;

/// A reader or writer that counts and hashes its bytes.
#[derive(Debug)]
pub(super) struct Tally<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
    newlines: u64,
    last: u8,
}

impl<T> Tally<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0, newlines: 0, last: b'\n' }
    }

    pub(super) fn length(&self) -> u64 {
        self.bytes
    }

    /// Number of lines, including a last one without a line feed.
    pub(super) fn lines(&self) -> u64 {
        self.newlines + u64::from(self.last != b'\n')
    }

    pub(super) fn finish(self) -> (T, Digest) {
        (self.inner, Digest::finish(self.hasher))
    }

    fn passed(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
    }
}

impl<R: Read> Read for Tally<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.passed(&buffer[..length]);
        Ok(length)
    }
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(buffer)?;
        self.passed(&buffer[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
