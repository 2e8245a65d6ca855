//! Unpacks an archive into requests and attachments. The archive is untrusted.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::GzDecoder;
use serde_json::Value;

use super::refusal::Refusal;
use super::tally::Tally;
use super::{FILES, Limits, MANIFEST, REQUESTS};
use crate::model::{BatchId, Digest, Exit, Failure, printable};
use crate::protocol::{BATCH_FORMAT, BatchManifest, MOST_REQUESTS, MOST_SHARDS, OtherFormat};

const BUFFER: usize = 1 << 16;
const LONGEST_MANIFEST: u64 = 1 << 20;

/// Unpacks the archive of the batch `id` into `dir`, which must be new or empty, and returns its manifest.
///
/// Checks the digest first, if one is expected. Accepts only regular files with the three legal names, each
/// with the content that the manifest or its own name promises. An error leaves `dir` unchanged.
pub fn unpack(
    archive: &Path,
    id: &BatchId,
    expected: Option<Digest>,
    limits: &Limits,
    dir: &Path,
) -> Result<BatchManifest, Failure> {
    let about = |refusal: Refusal| refusal.about(id);
    let mut file = File::open(archive).map_err(|error| about(Refusal::Unreadable(error)))?;
    let length = file.metadata().map_err(|error| about(Refusal::Unreadable(error)))?.len();
    if length > limits.archive_bytes {
        return Err(about(Refusal::TooLarge { most: limits.archive_bytes, what: "is larger than" }));
    }
    if let Some(expected) = expected {
        check_digest(&mut file, expected).map_err(about)?;
    }
    let mut target = NewDir::make(dir)?;
    let manifest = extract(file, length, limits, dir).map_err(about)?;
    if manifest.batch_id != *id {
        return Err(about(Refusal::OtherBatch(manifest.batch_id)));
    }
    target.keep = true;
    Ok(manifest)
}

/// The digest of the archive of the batch `id`.
pub fn digest(archive: &Path, id: &BatchId) -> Result<Digest, Failure> {
    let unreadable = |error| Refusal::Unreadable(error).about(id);
    digest_of(&mut File::open(archive).map_err(unreadable)?).map_err(unreadable)
}

fn check_digest(file: &mut File, expected: Digest) -> Result<(), Refusal> {
    let found = digest_of(file).map_err(Refusal::Unreadable)?;
    if found == expected { Ok(()) } else { Err(Refusal::Digest { found, expected }) }
}

/// Digest of a whole file; rewinds it.
fn digest_of(file: &mut File) -> io::Result<Digest> {
    let mut content = Tally::new(&mut *file);
    io::copy(&mut content, &mut io::sink())?;
    let (_, found) = content.finish();
    file.rewind()?;
    Ok(found)
}

fn extract(file: File, length: u64, limits: &Limits, dir: &Path) -> Result<BatchManifest, Refusal> {
    let most = limits.unpacked_bytes_of(length);
    let exceeded = Rc::new(Cell::new(false));
    let gzip = GzDecoder::new(BufReader::with_capacity(BUFFER, file));
    let mut tar = tar::Archive::new(SizeLimit { inner: gzip, left: most, exceeded: Rc::clone(&exceeded) });
    let bad = |error: io::Error| {
        if exceeded.get() {
            Refusal::TooLarge { most, what: "unpacks to more than" }
        } else {
            Refusal::Damaged(error.to_string())
        }
    };

    let mut contents = Contents { dir, manifest: None, requests: None, files: BTreeSet::new() };
    let mut entries = 0;
    // Raw: extension headers, which rename or resize the next entry, arrive as separate entries and are
    // rejected.
    for entry in tar.entries().map_err(bad)?.raw(true) {
        let entry = entry.map_err(bad)?;
        entries += 1;
        if entries > limits.entries {
            return Err(Refusal::TooManyEntries(limits.entries));
        }
        if entry.size() > most {
            exceeded.set(true);
        }
        let name = entry.path_bytes().into_owned();
        contents.add(&name, entry.header().entry_type(), entry, bad)?;
    }

    let mut rest = tar.into_inner();
    check_end(&mut rest).map_err(bad)?;
    let mut beyond = rest.inner.into_inner();
    if beyond.read(&mut [0]).map_err(Refusal::Unreadable)? > 0 {
        return Err(Refusal::Damaged("something follows the end of the archive".to_owned()));
    }
    contents.check()
}

/// Reads to the end of the gzip stream, which verifies its checksum. Only zeros may follow the last entry.
fn check_end(rest: &mut impl Read) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut ended = false;
    loop {
        match rest.read(&mut buffer)? {
            0 if ended => return Ok(()),
            0 => return Err(io::Error::other("it ends too early")),
            length if buffer[..length].iter().all(|byte| *byte == 0) => ended = true,
            _ => return Err(io::Error::other("something follows the last entry")),
        }
    }
}

/// The entries so far.
struct Contents<'a> {
    dir: &'a Path,
    manifest: Option<BatchManifest>,
    /// Digest and number of lines.
    requests: Option<(Digest, u64)>,
    files: BTreeSet<Digest>,
}

impl Contents<'_> {
    fn add(
        &mut self,
        name: &[u8],
        kind: tar::EntryType,
        mut content: impl Read,
        bad: impl Fn(io::Error) -> Refusal,
    ) -> Result<(), Refusal> {
        let illegal = |why| Err(Refusal::entry(name, why));
        if name.starts_with(b"/") {
            return illegal("an absolute path");
        }
        if name.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return illegal("a path out of the archive");
        }
        if kind != tar::EntryType::Regular {
            return illegal(describe(kind));
        }
        let name = std::str::from_utf8(name).unwrap_or_default();
        if self.manifest.is_none() && name != MANIFEST {
            return illegal("`manifest.json` must come first");
        }
        if name == MANIFEST {
            if self.manifest.is_some() {
                return illegal("it is there twice");
            }
            let mut text = Vec::new();
            content.by_ref().take(LONGEST_MANIFEST + 1).read_to_end(&mut text).map_err(bad)?;
            self.manifest = Some(read_manifest(&text)?);
            self.write(name, text.as_slice(), Refusal::Unreadable)?;
        } else if name == REQUESTS {
            if self.requests.is_some() {
                return illegal("it is there twice");
            }
            self.requests = Some(self.write(name, content, bad)?);
        } else if let Some(digest) = name.strip_prefix("files/").and_then(|digest| digest.parse().ok()) {
            if !self.files.insert(digest) {
                return illegal("it is there twice");
            }
            let (found, _) = self.write(name, content, bad)?;
            if found != digest {
                return Err(Refusal::Content(format!("`{name}` has the digest {found}")));
            }
        } else {
            return illegal("expected `manifest.json`, `requests.jsonl` or `files/<sha256>`");
        }
        Ok(())
    }

    fn write(
        &self,
        name: &str,
        content: impl Read,
        bad: impl Fn(io::Error) -> Refusal,
    ) -> Result<(Digest, u64), Refusal> {
        let path = self.dir.join(name);
        let unwritable = |error| Refusal::Unwritable { path: path.clone(), error };
        if name.starts_with(FILES) {
            fs::create_dir_all(self.dir.join(FILES)).map_err(unwritable)?;
        }
        let mut file = File::create_new(&path).map_err(unwritable)?;
        let mut content = Tally::new(content);
        copy(&mut content, &mut file, bad, unwritable)?;
        let lines = content.lines();
        Ok((content.finish().1, lines))
    }

    fn check(self) -> Result<BatchManifest, Refusal> {
        let manifest = self.manifest.ok_or_else(|| Refusal::Content(format!("no `{MANIFEST}`")))?;
        let (digest, lines) = self.requests.ok_or_else(|| Refusal::Content(format!("no `{REQUESTS}`")))?;
        let files = self.files.len() as u64;
        let problem = if digest != manifest.requests_sha256 {
            format!("`{REQUESTS}` has the digest {digest}, the manifest says {}", manifest.requests_sha256)
        } else if lines != manifest.requests {
            format!("`{REQUESTS}` has {lines} lines, the manifest says {}", manifest.requests)
        } else if files != manifest.files {
            format!("it has {files} files, the manifest says {}", manifest.files)
        } else {
            return Ok(manifest);
        };
        Err(Refusal::Content(problem))
    }
}

fn read_manifest(text: &[u8]) -> Result<BatchManifest, Refusal> {
    if text.len() as u64 > LONGEST_MANIFEST {
        return Err(Refusal::Manifest(format!("it is longer than {LONGEST_MANIFEST} bytes")));
    }
    let invalid = |error: serde_json::Error| Refusal::Manifest(printable(&error.to_string()));
    let json: Value = serde_json::from_slice(text).map_err(invalid)?;
    // Check the format first: a newer one may have unknown keys.
    OtherFormat::check_document(&json, BATCH_FORMAT, "generator").map_err(Refusal::Format)?;
    let manifest: BatchManifest = serde_json::from_value(json).map_err(invalid)?;
    if manifest.requests > MOST_REQUESTS {
        let message = format!("`requests` is {}, expected at most {MOST_REQUESTS}", manifest.requests);
        return Err(Refusal::Manifest(message));
    }
    if !(1..=MOST_SHARDS).contains(&manifest.shards) {
        let message = format!("`shards` is {}, expected 1 to {MOST_SHARDS}", manifest.shards);
        return Err(Refusal::Manifest(message));
    }
    if manifest.target.is_empty() || manifest.target.contains(char::is_control) {
        return Err(Refusal::Manifest("`target` is empty or has control characters".to_owned()));
    }
    Ok(manifest)
}

fn describe(kind: tar::EntryType) -> &'static str {
    use tar::EntryType as Kind;
    match kind {
        Kind::Symlink => "a symbolic link",
        Kind::Link => "a hard link",
        Kind::Char | Kind::Block => "a device",
        Kind::Fifo => "a named pipe",
        Kind::Directory => "a directory",
        _ => "not a regular file",
    }
}

/// Copies; the error says which side failed.
fn copy(
    from: &mut impl Read,
    to: &mut impl io::Write,
    bad: impl Fn(io::Error) -> Refusal,
    unwritable: impl Fn(io::Error) -> Refusal,
) -> Result<(), Refusal> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer).map_err(&bad)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length]).map_err(&unwritable)?,
        }
    }
}

/// A reader with a size limit.
struct SizeLimit<R> {
    inner: R,
    left: u64,
    exceeded: Rc<Cell<bool>>,
}

impl<R: Read> Read for SizeLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        match self.left.checked_sub(length as u64) {
            Some(left) if !self.exceeded.get() => {
                self.left = left;
                Ok(length)
            }
            _ => {
                self.exceeded.set(true);
                Err(io::Error::other("too large"))
            }
        }
    }
}

/// The output directory, emptied again unless unpacking succeeds.
struct NewDir<'a> {
    path: &'a Path,
    created: bool,
    keep: bool,
}

impl<'a> NewDir<'a> {
    fn make(path: &'a Path) -> Result<Self, Failure> {
        let cannot = |error: io::Error| {
            Failure::new(Exit::Failure, format!("cannot unpack into `{}`: {error}", path.display()))
        };
        let created = !path.exists();
        if created {
            fs::create_dir_all(path).map_err(cannot)?;
        } else if fs::read_dir(path).map_err(cannot)?.next().is_some() {
            return Err(Failure::config(format!("cannot unpack into `{}`: it is not empty", path.display()))
                .hint("choose a new directory"));
        }
        Ok(Self { path, created, keep: false })
    }
}

impl Drop for NewDir<'_> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Ignore failures here: the original error matters more.
        if self.created {
            let _ = fs::remove_dir_all(self.path);
        } else {
            let _ = fs::remove_file(self.path.join(MANIFEST));
            let _ = fs::remove_file(self.path.join(REQUESTS));
            let _ = fs::remove_dir_all(self.path.join(FILES));
        }
    }
}
