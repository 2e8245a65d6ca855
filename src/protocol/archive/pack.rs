//! Packs requests and attachments into an archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::tally::Tally;
use super::{FILES, Limits, MANIFEST, REQUESTS};
use crate::model::{Digest, Exit, Failure};
use crate::protocol::BatchManifest;
use crate::util::durable;
use crate::util::gzip::compressor;

const BUFFER: usize = 1 << 16;

/// Writes a batch archive to `out` and returns its digest.
///
/// The same manifest, requests and files give the same bytes on every machine. The data streams, so memory
/// does not grow with the batch. `out` appears only when it is complete.
pub fn pack(
    manifest: &BatchManifest,
    requests: &Path,
    files: &BTreeMap<Digest, PathBuf>,
    out: &Path,
) -> anyhow::Result<Digest> {
    let limits = Limits::default();
    let entries = files.len() as u64 + 2;
    anyhow::ensure!(manifest.files == files.len() as u64, "the manifest counts {} files", manifest.files);
    within(entries, limits.entries, "entries")?;

    let cannot_write = || format!("cannot write the batch archive `{}`", out.display());
    let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = NamedTempFile::new_in(folder).with_context(cannot_write)?;
    let to = Tally::new(BufWriter::with_capacity(BUFFER, temporary.as_file()));
    // Counts the tar stream before compression, because the limits apply to the unpacked size.
    let mut tar = tar::Builder::new(Tally::new(compressor(to)));

    let mut json = serde_json::to_vec_pretty(manifest)?;
    json.push(b'\n');
    add(&mut tar, MANIFEST, json.len() as u64, json.as_slice()).with_context(cannot_write)?;
    let (digest, lines) = add_file(&mut tar, REQUESTS, requests)?;
    if (digest, lines) != (manifest.requests_sha256, manifest.requests) {
        return Err(changed(requests).into());
    }
    for (digest, path) in files {
        if add_file(&mut tar, &format!("{FILES}/{digest}"), path)?.0 != *digest {
            return Err(changed(path).into());
        }
    }

    let tar = tar.into_inner().with_context(cannot_write)?;
    let unpacked = tar.length();
    let mut to = tar.finish().0.finish().with_context(cannot_write)?;
    to.flush().with_context(cannot_write)?;
    within(to.length(), limits.archive_bytes, "bytes, compressed")?;
    within(unpacked, limits.unpacked_bytes_of(to.length()), "bytes")?;
    let (_, digest) = to.finish();
    durable::place(temporary, out).with_context(cannot_write)?;
    Ok(digest)
}

/// Adds a file from disk; returns the digest and the number of lines that were read.
fn add_file<W: Write>(tar: &mut tar::Builder<W>, name: &str, path: &Path) -> anyhow::Result<(Digest, u64)> {
    let cannot_read = || format!("cannot add `{}` to the batch archive", path.display());
    let file = File::open(path).with_context(cannot_read)?;
    let size = file.metadata().with_context(cannot_read)?.len();
    let mut content = Tally::new(file.take(size));
    add(tar, name, size, &mut content).with_context(cannot_read)?;
    let lines = content.lines();
    if content.length() != size {
        return Err(changed(path).into());
    }
    Ok((content.finish().1, lines))
}

/// Adds an entry with fixed metadata.
fn add<W: Write>(
    tar: &mut tar::Builder<W>,
    name: &str,
    size: u64,
    content: impl Read,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    tar.append(&header, content)
}

fn within(count: u64, most: u64, what: &str) -> Result<(), Failure> {
    if count <= most {
        return Ok(());
    }
    Err(Failure::config(format!("the batch is too large: {count} {what}, at most {most}"))
        .hint("split it into several batches"))
}

fn changed(path: &Path) -> Failure {
    Failure::new(Exit::Failure, format!("`{}` changed while the batch was packed", path.display()))
        .hint("run the command again")
}
