//! A bundle as one file, `.tar.gz`: the same bytes for the same bundle, and checked when it is taken apart.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::MANIFEST;
use super::manifest::{Content, Manifest};
use super::verify::{is_inside, stays_inside, verify_as};
use crate::archive::compressor;
use crate::model::{Digest, Failure, printable};

/// Far above any real bundle, far below a disk.
const MOST_BYTES: u64 = 64 << 30;
const MOST_ENTRIES: u64 = 2_000_000;

/// Writes the archive of a bundle and returns its digest.
pub fn pack(dir: &Path, out: &Path) -> anyhow::Result<Digest> {
    let text = fs::read(dir.join(MANIFEST)).with_context(|| format!("cannot read `{MANIFEST}`"))?;
    let manifest = Manifest::parse(&text, &dir.join(MANIFEST))?;
    let cannot = || format!("cannot write the archive `{}`", out.display());
    let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = NamedTempFile::new_in(folder).with_context(cannot)?;
    let mut tar = tar::Builder::new(compressor(BufWriter::with_capacity(1 << 16, temporary.as_file())));
    let mut header = header(tar::EntryType::Regular, text.len() as u64, 0o644);
    tar.append_data(&mut header, MANIFEST, text.as_slice()).with_context(cannot)?;
    for file in &manifest.files {
        let add = |tar: &mut tar::Builder<_>| -> io::Result<()> {
            match &file.content {
                Content::Link { link } => {
                    let mut header = self::header(tar::EntryType::Symlink, 0, 0o777);
                    tar.append_link(&mut header, &file.path, link)
                }
                Content::File { size, mode, .. } => {
                    let mode = if mode == "0755" { 0o755 } else { 0o644 };
                    let mut header = self::header(tar::EntryType::Regular, *size, mode);
                    tar.append_data(&mut header, &file.path, File::open(dir.join(&file.path))?.take(*size))
                }
            }
        };
        add(&mut tar).with_context(|| format!("cannot add `{}` to the archive", file.path))?;
    }
    let compressed = tar.into_inner().and_then(flate2::write::GzEncoder::finish).with_context(cannot)?;
    compressed
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .with_context(cannot)?
        .flush()
        .with_context(cannot)?;
    fs::set_permissions(temporary.path(), Permissions::from_mode(0o644)).with_context(cannot)?;
    let digest = digest(temporary.path()).with_context(cannot)?;
    temporary.persist(out).map_err(|error| error.error).with_context(cannot)?;
    Ok(digest)
}

/// Takes an archive apart into a new directory and checks it. The archive may come from anybody.
pub fn unpack(archive: &Path, dir: &Path) -> anyhow::Result<()> {
    let refused = |what: String| Failure::config(format!("`{}` is no bundle: {what}", archive.display()));
    let file = File::open(archive)
        .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", archive.display())))?;
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(MOST_BYTES));
    let mut links: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let mut count = 0;
    for entry in tar.entries().map_err(|error| refused(error.to_string()))? {
        let mut entry = entry.map_err(|error| refused(error.to_string()))?;
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap_or_default();
        count += 1;
        if count > MOST_ENTRIES {
            return Err(refused(format!("it has more than {MOST_ENTRIES} entries")).into());
        }
        if !is_inside(&name) {
            return Err(refused(format!("`{}` is no path in it", printable(&name))).into());
        }
        let path = dir.join(&name);
        match entry.header().entry_type() {
            tar::EntryType::Regular => {
                let executable = entry.header().mode().unwrap_or(0) & 0o100 != 0;
                let cannot = || format!("cannot write `{}`", path.display());
                fs::create_dir_all(path.parent().unwrap_or(dir)).with_context(cannot)?;
                let mut out = File::create_new(&path).with_context(cannot)?;
                io::copy(&mut entry, &mut out).with_context(cannot)?;
                let mode = if executable { 0o755 } else { 0o644 };
                fs::set_permissions(&path, Permissions::from_mode(mode)).with_context(cannot)?;
            }
            tar::EntryType::Symlink => {
                let target =
                    entry.link_name().ok().flatten().map(std::borrow::Cow::into_owned).unwrap_or_default();
                let parent = Path::new(&name).parent().unwrap_or(Path::new(""));
                if !stays_inside(&parent.join(&target)) || target.is_absolute() {
                    return Err(refused(format!("the link `{}` leads out of it", printable(&name))).into());
                }
                links.insert(path, target);
            }
            _ => return Err(refused(format!("`{}` is neither a file nor a link", printable(&name))).into()),
        }
    }
    // Last, so that no file is written through one.
    for (path, target) in links {
        let cannot = || format!("cannot write `{}`", path.display());
        fs::create_dir_all(path.parent().unwrap_or(dir)).with_context(cannot)?;
        symlink(target, &path).with_context(cannot)?;
    }
    verify_as(dir, archive).map(drop)
}

fn header(kind: tar::EntryType, size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn digest(path: &Path) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Digest::finish(hasher)),
            length => hasher.update(&buffer[..length]),
        }
    }
}
