//! Writes files atomically.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use tempfile::NamedTempFile;

use crate::util::durable;

/// Writes a file atomically, creating its directory if necessary.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    durable::create_dir_all(dir).with_context(cannot)?;
    let mut file = temporary_file(dir)?;
    file.write_all(bytes).with_context(cannot)?;
    put_in_place(file, path)
}

/// A temporary file next to the final name, used only by this process.
pub(super) fn temporary_file(dir: &Path) -> anyhow::Result<NamedTempFile> {
    durable::readable_temporary_in(dir).with_context(|| format!("cannot write to `{}`", dir.display()))
}

pub(super) fn put_in_place(file: NamedTempFile, path: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    durable::persist(file, path).with_context(cannot)
}
