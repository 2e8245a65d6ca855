//! What a power cut or a failing disk has damaged is moved to a folder of its own, where it can be inspected.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::LocalExchange;
use crate::util::durable;

/// The folder in an exchange that has what was set aside.
const FOLDER: &str = "damaged";

/// A line of a file, for messages.
#[derive(Debug, Clone, Copy)]
pub struct RowPlace<'p> {
    /// The file, as a user finds it.
    pub file: &'p str,
    /// Counted from 1.
    pub line: u64,
}

impl fmt::Display for RowPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, line {}", self.file, self.line)
    }
}

impl LocalExchange {
    /// Moves a file of the exchange out of the way that cannot be read, and says so.
    pub fn set_aside(&self, file: &Path, problem: &str) -> anyhow::Result<()> {
        set_aside(self.path(), file, problem).map(drop)
    }
}

/// Moves a file of the exchange at `root` out of the way, and says so; gives its new name.
pub(super) fn set_aside(root: &Path, file: &Path, problem: &str) -> anyhow::Result<PathBuf> {
    let to = free_name(root, file)?;
    durable::rename(file, &to).with_context(|| format!("cannot move `{}`", file.display()))?;
    warn(file, &to, problem);
    Ok(to)
}

/// Keeps a copy of a file of the exchange at `root` before it is replaced, and says so.
pub(super) fn keep_copy(root: &Path, file: &Path, problem: &str) -> anyhow::Result<()> {
    let to = free_name(root, file)?;
    let cannot = || format!("cannot copy `{}`", file.display());
    let mut copy = durable::temporary_for(&to).with_context(cannot)?;
    std::io::copy(&mut fs::File::open(file).with_context(cannot)?, &mut copy).with_context(cannot)?;
    durable::persist(copy, &to).with_context(cannot)?;
    warn(file, &to, problem);
    Ok(())
}

/// Keeps a text in place of something that is not a file, and warns.
pub(super) fn keep_text(root: &Path, name: &str, text: &str, problem: &str) -> anyhow::Result<()> {
    let to = free_name(root, &root.join(name))?;
    durable::write(&to, text.as_bytes()).with_context(|| format!("cannot write `{}`", to.display()))?;
    warn(&root.join(name), &to, problem);
    Ok(())
}

fn warn(file: &Path, to: &Path, problem: &str) {
    tracing::warn!("`{}` is damaged ({problem}): it is set aside as `{}`", file.display(), to.display());
}

/// A name that nothing has yet.
fn free_name(root: &Path, file: &Path) -> anyhow::Result<PathBuf> {
    let folder = root.join(FOLDER);
    durable::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('/', "-");
    let names = (1_u32..).map(|number| folder.join(format!("{name}.{number}")));
    names.into_iter().find(|name| name.symlink_metadata().is_err()).context("no free name")
}
