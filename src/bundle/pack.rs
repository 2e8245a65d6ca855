//! A bundle as one `.tar.gz` file: reproducible, and checked when unpacked.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::MANIFEST;
use super::manifest::{Content, FileRecord, Manifest};
use super::verify::{LARGEST_MANIFEST, check_listed, is_inside, read_manifest, verify_as};
use crate::model::{Digest, Failure, printable};
use crate::util::durable;
use crate::util::gzip::compressor;

/// Any archive may unpack to this size.
const SMALL: u64 = 1 << 30;
/// A larger one may unpack to this multiple of its own size; zeros compress a thousandfold.
const RATIO: u64 = 100;
/// Far above any real bundle.
const MOST_BYTES: u64 = 64 << 30;
/// The longest path and the longest target of a link.
const LONGEST_NAME: u64 = 1 << 16;
/// The longest name of the top directory.
const LONGEST_TOP: usize = 64;
/// The modes of files and links in an archive.
const FILE: u32 = 0o644;
const PROGRAM: u32 = 0o755;
const LINK: u32 = 0o777;

/// Writes the archive of a bundle and returns its digest.
pub fn pack(dir: &Path, out: &Path) -> anyhow::Result<Digest> {
    let text = read_manifest(dir).with_context(|| format!("cannot read `{MANIFEST}`"))?;
    let manifest = Manifest::parse(&text, &dir.join(MANIFEST))?;
    let cannot = || format!("cannot write the archive `{}`", out.display());
    let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = NamedTempFile::new_in(folder).with_context(cannot)?;
    let mut tar = tar::Builder::new(compressor(BufWriter::with_capacity(1 << 16, temporary.as_file())));
    let mut header = header(tar::EntryType::Regular, text.len() as u64, FILE);
    let top = top_of(&manifest);
    tar.append_data(&mut header, format!("{top}/{MANIFEST}"), text.as_slice()).with_context(cannot)?;
    for file in &manifest.files {
        let name = format!("{top}/{}", file.path);
        let add = |tar: &mut tar::Builder<_>| -> io::Result<()> {
            match &file.content {
                Content::Link { link } => {
                    let mut header = self::header(tar::EntryType::Symlink, 0, LINK);
                    tar.append_link(&mut header, &name, link)
                }
                Content::File { size, mode, .. } => {
                    let mode = if mode == "0755" { PROGRAM } else { FILE };
                    let mut header = self::header(tar::EntryType::Regular, *size, mode);
                    tar.append_data(&mut header, &name, File::open(dir.join(&file.path))?.take(*size))
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
    let digest = file_digest(temporary.path()).with_context(cannot)?;
    durable::persist(temporary, out).with_context(cannot)?;
    Ok(digest)
}

/// Unpacks an archive into a new directory and checks it. The archive is untrusted: only files in its manifest are written, and
/// anything that other programs would unpack differently is rejected.
pub fn unpack(archive: &Path, dir: &Path) -> anyhow::Result<()> {
    let refused = |what: String| Failure::config(format!("`{}` is not a bundle: {what}", archive.display()));
    let broken = |error: io::Error| refused(error.to_string());
    let file = File::open(archive)
        .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", archive.display())))?;
    let length = file.metadata().map_err(broken)?.len();
    let most = length.saturating_mul(RATIO).clamp(SMALL, MOST_BYTES);
    let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(most));
    {
        // Raw: extensions are separate entries.
        let mut entries = tar.entries().map_err(broken)?.raw(true);
        let (top, manifest) = first_entry(entries.next(), dir, archive).map_err(refused)?;
        let manifest = manifest?;
        if top != top_of(&manifest) {
            let (top, expected) = (printable(&top), top_of(&manifest));
            return Err(refused(format!("its directory is `{top}`, expected `{expected}`")).into());
        }
        let known = check_listed(&manifest, archive)?;
        check_size(&manifest, most).map_err(refused)?;
        let mut open: BTreeMap<&str, &FileRecord> = known.clone();
        let mut links: BTreeMap<PathBuf, &str> = BTreeMap::new();
        let mut long = LongNames::default();
        for entry in entries {
            let mut entry = entry.map_err(broken)?;
            if long.take(&mut entry).map_err(refused)? {
                continue;
            }
            let (whole, target) = std::mem::take(&mut long).names(&entry).map_err(refused)?;
            let shown = printable(&whole);
            let Some(name) = whole.strip_prefix(&top).and_then(|name| name.strip_prefix('/')) else {
                return Err(refused(format!("`{shown}` is not in `{top}/`")).into());
            };
            let shown = printable(name);
            if !is_inside(name) {
                return Err(refused(format!("`{shown}` is not a valid path in a bundle")).into());
            }
            let Some(listed) = open.remove(name) else {
                let is_again = known.contains_key(name) || name == MANIFEST;
                let what = if is_again { "appears twice" } else { "is not in the manifest" };
                return Err(refused(format!("`{shown}` {what}")).into());
            };
            check_mode(entry.header(), name).map_err(refused)?;
            let path = dir.join(name);
            match (&listed.content, entry.header().entry_type()) {
                (Content::File { size, .. }, tar::EntryType::Regular) if entry.size() == *size => {
                    write_file(&mut entry, &path, dir)?;
                }
                (Content::Link { link }, tar::EntryType::Symlink) if entry.size() == 0 => {
                    if target.as_deref() != Some(link) {
                        return Err(refused(format!("`{shown}` is another link")).into());
                    }
                    links.insert(path, link);
                }
                _ => return Err(refused(format!("`{shown}` does not match the manifest")).into()),
            }
        }
        if long != LongNames::default() {
            return Err(refused("it ends with the name of a missing entry".to_owned()).into());
        }
        // Last, so that no file is written through a link.
        for (path, target) in links {
            let cannot = || format!("cannot write `{}`", path.display());
            fs::create_dir_all(path.parent().unwrap_or(dir)).with_context(cannot)?;
            symlink(target, &path).with_context(cannot)?;
        }
    }
    let mut rest = tar.into_inner();
    let is_over = only_zeros(&mut rest).map_err(broken)?
        && rest.into_inner().into_inner().fill_buf().map_err(broken)?.is_empty();
    if !is_over {
        return Err(refused("it has data after its end".to_owned()).into());
    }
    verify_as(dir, archive).map(drop)
}

/// Rejects a bundle that is too large before writing anything.
fn check_size(manifest: &Manifest, most: u64) -> Result<(), String> {
    let sizes = manifest.files.iter().map(|file| match &file.content {
        Content::File { size, .. } => *size,
        Content::Link { .. } => 0,
    });
    let total = sizes.fold(0, u64::saturating_add);
    if total <= most {
        return Ok(());
    }
    let [total, most] = [total, most].map(|bytes| bytes >> 20);
    Err(format!(
        "it unpacks to {total} MiB, expected at most {most} MiB: 1 GiB, or {RATIO} times its own size"
    ))
}

/// The long names of the next entry. These are the only extensions that `pack` writes; programs interpret others, such as pax
/// headers, differently.
#[derive(Debug, Default, PartialEq, Eq)]
struct LongNames {
    path: Option<String>,
    target: Option<String>,
}

impl LongNames {
    /// Whether an entry is a long name, which is kept for the next entry.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl io::Read>) -> Result<bool, String> {
        let kind = entry.header().entry_type();
        let place = match kind {
            tar::EntryType::GNULongName => &mut self.path,
            tar::EntryType::GNULongLink => &mut self.target,
            _ => return Ok(false),
        };
        if place.is_some() {
            return Err("an entry has two names".to_owned());
        }
        if entry.size() > LONGEST_NAME {
            return Err(format!("the name of an entry is longer than {LONGEST_NAME} bytes"));
        }
        let mut text = Vec::new();
        entry.read_to_end(&mut text).map_err(|error| error.to_string())?;
        *place = Some(
            name_in(&text).filter(|_| text.ends_with(b"\0")).ok_or("the name of an entry is not a path")?,
        );
        Ok(true)
    }

    /// The path of an entry, and its link target. Its header must be one that `pack` writes.
    fn names(self, entry: &tar::Entry<'_, impl io::Read>) -> Result<(String, Option<String>), String> {
        let header = entry.header();
        let shown = printable(&String::from_utf8_lossy(&entry.path_bytes()));
        // Other formats continue the name there.
        let is_gnu = header.as_gnu().is_some() && header.as_bytes()[345..].iter().all(|byte| *byte == 0);
        let kind = header.entry_type();
        if !is_gnu || kind.is_pax_local_extensions() || kind.is_pax_global_extensions() {
            return Err(format!(
                "`{shown}` has an unsupported header; expected plain GNU headers and GNU long names"
            ));
        }
        let old = header.as_old();
        let is_link = kind == tar::EntryType::Symlink;
        let (path, target) = (name_in(&old.name), name_in(&old.linkname));
        let (Some(path), Some(target)) = (self.path.or(path), self.target.clone().or(target)) else {
            return Err(format!("`{shown}` is not a valid path in a bundle"));
        };
        if !is_link && self.target.is_some() {
            return Err(format!("`{shown}` has a link target but is not a link"));
        }
        Ok((path, is_link.then_some(target)))
    }
}

/// The text before the zeros at the end of a field.
fn name_in(field: &[u8]) -> Option<String> {
    let end = field.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    String::from_utf8(field[..end].to_vec()).ok().filter(|name| !name.contains('\0'))
}

/// Rejects modes that `pack` does not write, such as setuid.
fn check_mode(header: &tar::Header, name: &str) -> Result<(), String> {
    let mode = header.mode().unwrap_or(u32::MAX) & 0o7777;
    let legal: &[u32] =
        if header.entry_type() == tar::EntryType::Symlink { &[LINK] } else { &[FILE, PROGRAM] };
    if legal.contains(&mode) {
        return Ok(());
    }
    let legal: Vec<String> = legal.iter().map(|mode| format!("`{mode:04o}`")).collect();
    Err(format!("`{}` has the mode `{mode:04o}`, expected {}", printable(name), legal.join(" or ")))
}

/// The top directory of an archive: the suite's name, independent of the machine.
fn top_of(manifest: &Manifest) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = manifest.name.chars().map(legal).take(LONGEST_TOP).collect();
    let name = name.trim_matches(['.', '-']);
    if name.is_empty() { "bundle".to_owned() } else { name.to_owned() }
}

/// Reads and writes the manifest, which comes first. Returns its directory, too.
fn first_entry(
    entry: Option<io::Result<tar::Entry<'_, impl io::Read>>>,
    dir: &Path,
    archive: &Path,
) -> Result<(String, anyhow::Result<Manifest>), String> {
    let mut entry = match entry {
        Some(entry) => entry.map_err(|error| error.to_string())?,
        None => return Err("it is empty".to_owned()),
    };
    let (name, _) = LongNames::default().names(&entry)?;
    let top = name.strip_suffix(MANIFEST).and_then(|top| top.strip_suffix('/'));
    let top = top.filter(|top| is_inside(top) && !top.contains('/')).map(ToOwned::to_owned);
    let Some(top) = top.filter(|_| entry.header().entry_type() == tar::EntryType::Regular) else {
        return Err(format!("its first entry is `{}`, not the file `NAME/{MANIFEST}`", printable(&name)));
    };
    check_mode(entry.header(), &name)?;
    if entry.size() > LARGEST_MANIFEST {
        return Err(format!("`{MANIFEST}` is larger than {} MiB", LARGEST_MANIFEST >> 20));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text).map_err(|error| error.to_string())?;
    let manifest = Manifest::parse(&text, &archive.join(MANIFEST));
    let written = fs::write(dir.join(MANIFEST), &text)
        .and_then(|()| fs::set_permissions(dir.join(MANIFEST), Permissions::from_mode(FILE)));
    let written = written.with_context(|| format!("cannot write `{MANIFEST}`"));
    Ok((top, written.and_then(|()| Ok(manifest?))))
}

fn write_file(entry: &mut tar::Entry<'_, impl io::Read>, path: &Path, dir: &Path) -> anyhow::Result<()> {
    let executable = entry.header().mode().unwrap_or(0) & 0o100 != 0;
    let cannot = || format!("cannot write `{}`", path.display());
    fs::create_dir_all(path.parent().unwrap_or(dir)).with_context(cannot)?;
    let mut out = File::create_new(path).with_context(cannot)?;
    io::copy(entry, &mut out).with_context(cannot)?;
    let mode = if executable { PROGRAM } else { FILE };
    fs::set_permissions(path, Permissions::from_mode(mode)).with_context(cannot)
}

/// Whether only zeros are left, with which archives are padded.
fn only_zeros(reader: &mut impl io::Read) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(true),
            length if buffer[..length].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
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

/// The digest of a file.
pub fn file_digest(path: &Path) -> io::Result<Digest> {
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
