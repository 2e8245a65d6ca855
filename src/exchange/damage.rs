//! Moves files damaged by a power cut or a failing disk to a separate folder for inspection.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::LocalExchange;
use crate::util::durable;

/// The folder of an exchange for damaged files.
const FOLDER: &str = "damaged";

/// A line of a file, for messages.
#[derive(Debug, Clone, Copy)]
pub struct RowPlace<'p> {
    /// The file, by its path for users.
    pub file: &'p str,
    /// The line number, from 1.
    pub line: u64,
}

impl fmt::Display for RowPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`, line {}", self.file, self.line)
    }
}

impl LocalExchange {
    /// Moves an unreadable file of the exchange aside, with a warning.
    pub fn set_aside(&self, file: &Path, problem: &str) -> anyhow::Result<()> {
        set_aside(self.path(), file, problem).map(drop)
    }
}

/// Moves a file of the exchange at `root` aside, with a warning; returns its new name.
pub(super) fn set_aside(root: &Path, file: &Path, problem: &str) -> anyhow::Result<PathBuf> {
    let to = free_name(root, file)?;
    durable::rename(file, &to).with_context(|| format!("cannot move `{}`", file.display()))?;
    warn(file, &to, problem);
    Ok(to)
}

/// Keeps a copy of a file of the exchange at `root` before it is replaced, with a warning.
pub(super) fn keep_copy(root: &Path, file: &Path, problem: &str) -> anyhow::Result<()> {
    let to = free_name(root, file)?;
    let cannot = || format!("cannot copy `{}`", file.display());
    let mut copy = durable::temporary_for(&to).with_context(cannot)?;
    std::io::copy(&mut fs::File::open(file).with_context(cannot)?, &mut copy).with_context(cannot)?;
    durable::persist(copy, &to).with_context(cannot)?;
    warn(file, &to, problem);
    Ok(())
}

/// Saves a text for something that is not a file, with a warning.
pub(super) fn keep_text(root: &Path, name: &str, text: &str, problem: &str) -> anyhow::Result<()> {
    let to = free_name(root, &root.join(name))?;
    durable::write(&to, text.as_bytes()).with_context(|| format!("cannot write `{}`", to.display()))?;
    warn(&root.join(name), &to, problem);
    Ok(())
}

fn warn(file: &Path, to: &Path, problem: &str) {
    tracing::warn!("`{}` is damaged ({problem}): moved to `{}`", file.display(), to.display());
}

/// An unused name.
fn free_name(root: &Path, file: &Path) -> anyhow::Result<PathBuf> {
    let folder = root.join(FOLDER);
    durable::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('/', "-");
    let names = (1_u32..).map(|number| folder.join(format!("{name}.{number}")));
    names.into_iter().find(|name| name.symlink_metadata().is_err()).context("no free name")
}
