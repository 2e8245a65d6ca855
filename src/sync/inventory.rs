//! The content of a clone when its replica was made, to detect later additions.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::staging_dir::is_object;
use crate::util::durable;

/// The state of a file. `ctime` is not included: a new hard link changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    mode: u32,
    size: u64,
    modified: i64,
    nanoseconds: i64,
}

/// Every file and directory of a clone, including git's own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory(HashMap<PathBuf, Stamp>);

impl Inventory {
    /// Records a path. Call it before the path is copied or linked, so that a concurrent change counts as later.
    pub(super) fn add(&mut self, inner: &Path, meta: &fs::Metadata) {
        self.0.insert(inner.to_path_buf(), Stamp::of(inner, meta));
    }

    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let cannot = || format!("cannot write `{}`", file.display());
        let mut out = std::io::BufWriter::new(durable::temporary_for(file).with_context(cannot)?);
        for (path, stamp) in &self.0 {
            let Stamp { inode, mode, size, modified, nanoseconds } = stamp;
            write!(out, "{inode} {mode} {size} {modified} {nanoseconds} ").with_context(cannot)?;
            out.write_all(path.as_os_str().as_bytes()).with_context(cannot)?;
            out.write_all(b"\0").with_context(cannot)?;
        }
        let out = out.into_inner().map_err(std::io::IntoInnerError::into_error).with_context(cannot)?;
        durable::persist(out, file).with_context(cannot)
    }

    /// Reads an inventory; `None` if it is incomplete.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let bytes = fs::read(file).ok()?;
        let lines = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        lines.map(line).collect::<Option<HashMap<_, _>>>().map(Self)
    }

    /// Moves later additions from the old directory into the clone. Returns whether the old directory has nothing else left; with
    /// `with_index`, the caller checks its index.
    pub(super) fn rescue(&self, old: &Path, clone: &Path, with_index: bool) -> anyhow::Result<bool> {
        let mut is_clean = true;
        let mut walk = walkdir::WalkDir::new(old).min_depth(1).into_iter();
        while let Some(entry) = walk.next() {
            let entry = entry?;
            let meta = fs::symlink_metadata(entry.path())?;
            let inner = entry.path().strip_prefix(old)?;
            let (known, to) = (self.0.get(inner), clone.join(inner));
            let there = fs::symlink_metadata(&to).ok();
            let is_same =
                there.as_ref().is_some_and(|there| (there.dev(), there.ino()) == (meta.dev(), meta.ino()));
            if is_same || known == Some(&Stamp::of(inner, &meta)) {
                continue;
            }
            let inside_git = inner.components().any(|part| part.as_os_str() == ".git");
            if meta.is_dir()
                && (inside_git || known.is_some() || there.as_ref().is_some_and(fs::Metadata::is_dir))
            {
                // Its entries are checked on their own.
                continue;
            }
            if inside_git && inner != Path::new(".git") {
                is_clean &= !with_index && inner == Path::new(".git/index");
            } else if known.is_some() || there.is_some() {
                is_clean = false;
            } else {
                is_clean &= make_way(clone, inner)?
                    && renameat_with(CWD, entry.path(), CWD, &to, RenameFlags::NOREPLACE).is_ok();
                if meta.is_dir() {
                    walk.skip_current_dir();
                }
            }
        }
        Ok(is_clean)
    }
}

impl Stamp {
    fn of(inner: &Path, meta: &fs::Metadata) -> Self {
        // A directory's entries are checked on their own, and git touches existing objects instead of rewriting them.
        let is_object = inner.strip_prefix(".git").is_ok_and(is_object);
        let (size, modified, nanoseconds) = match (meta.is_dir(), is_object) {
            (true, _) => (0, 0, 0),
            (false, true) => (meta.len(), 0, 0),
            (false, false) => (meta.len(), meta.mtime(), meta.mtime_nsec()),
        };
        Self { inode: meta.ino(), mode: meta.mode(), size, modified, nanoseconds }
    }
}

/// `inode mode size modified nanoseconds path`.
fn line(line: &[u8]) -> Option<(PathBuf, Stamp)> {
    let mut parts = line.splitn(6, |byte| *byte == b' ');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let stamp = Stamp {
        inode: text()?.parse().ok()?,
        mode: text()?.parse().ok()?,
        size: text()?.parse().ok()?,
        modified: text()?.parse().ok()?,
        nanoseconds: text()?.parse().ok()?,
    };
    Some((PathBuf::from(OsStr::from_bytes(parts.next()?)), stamp))
}

/// Creates the parent directories of a path, unless one of them is a link, which could point anywhere.
fn make_way(clone: &Path, inner: &Path) -> anyhow::Result<bool> {
    let mut dir = clone.to_path_buf();
    for part in inner.parent().into_iter().flat_map(Path::components) {
        dir.push(part);
        match fs::symlink_metadata(&dir) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(_) => fs::create_dir(&dir)?,
        }
    }
    Ok(true)
}
