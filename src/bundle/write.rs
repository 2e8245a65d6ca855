//! Writes a plan to a directory, atomically.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use memchr::memmem::Finder;
use sha2::{Digest as _, Sha256};

use super::files::BundleEntry;
use super::manifest::{Content, FileRecord, Manifest};
use super::variables::{Forbidden, leak};
use super::verify::read_manifest;
use super::{MANIFEST, is_bundle};
use crate::model::{Digest, Exit, Failure};
use crate::util::{WorkDir, durable, regular_file};

const BUFFER: usize = 1 << 20;

/// The result of writing a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It is new, or replaced another one.
    Written,
    /// The same bytes already existed.
    Unchanged,
}

/// Files being written, next to their destination.
#[derive(Debug)]
pub(super) struct Draft {
    workshop: WorkDir,
    out: PathBuf,
}

impl Draft {
    /// Begins a directory; rejects an existing one that is not a bundle.
    pub(super) fn begin(out: &Path) -> anyhow::Result<Self> {
        let out = std::path::absolute(out)?;
        let is_empty = fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_none());
        if out.exists() && !is_empty && !is_bundle(&out) {
            let message = format!("`{}` exists and is not a bundle", out.display());
            return Err(Failure::new(Exit::Usage, message).hint("choose a new directory with `-o`").into());
        }
        let parent = out.parent().unwrap_or(&out).to_owned();
        let cannot = || format!("cannot write into `{}`", parent.display());
        fs::create_dir_all(&parent).with_context(cannot)?;
        let workshop = WorkDir::within(&parent).with_context(cannot)?;
        fs::create_dir(workshop.path().join("new")).with_context(cannot)?;
        Ok(Self { workshop, out })
    }

    /// The temporary directory of the files.
    pub(super) fn dir(&self) -> PathBuf {
        self.workshop.path().join("new")
    }

    /// Writes all entries and returns their manifest records.
    pub(super) fn write(
        &self,
        entries: &BTreeMap<String, BundleEntry>,
        forbidden: &[Forbidden],
    ) -> anyhow::Result<Vec<FileRecord>> {
        let dir = self.dir();
        let finders: Vec<(&Forbidden, Finder)> =
            forbidden.iter().map(|secret| (secret, Finder::new(&secret.value))).collect();
        let mut buffer = vec![0; BUFFER];
        let mut records = Vec::with_capacity(entries.len());
        let mut last_parent = PathBuf::new();
        for (path, entry) in entries {
            let to = dir.join(path);
            let cannot = || format!("cannot write `{path}` of the bundle");
            let parent = to.parent().unwrap_or(&dir);
            if parent != last_parent {
                fs::create_dir_all(parent).with_context(cannot)?;
                parent.clone_into(&mut last_parent);
            }
            let (source, content) = match entry {
                BundleEntry::Copy { from, source, executable } => {
                    let (size, sha256) = copy(from, &to, &finders, &mut buffer, cannot)?;
                    (Some(source.clone()), file(&to, size, sha256, *executable).with_context(cannot)?)
                }
                BundleEntry::Made { content, source } => {
                    fs::write(&to, content).with_context(cannot)?;
                    let record = file(&to, content.len() as u64, Digest::of(content), false);
                    (source.clone(), record.with_context(cannot)?)
                }
                BundleEntry::Link { target, source } => {
                    symlink(target, &to).with_context(cannot)?;
                    (source.clone(), Content::Link { link: target.clone() })
                }
            };
            records.push(FileRecord { path: path.clone(), source, content });
        }
        Ok(records)
    }

    /// Adds the manifest and moves the directory into place.
    pub(super) fn finish(self, manifest: &Manifest, force: bool) -> anyhow::Result<WriteOutcome> {
        let text = manifest.to_text();
        let dir = self.dir();
        let cannot = || format!("cannot write `{MANIFEST}` of the bundle");
        fs::write(dir.join(MANIFEST), &text).with_context(cannot)?;
        fs::set_permissions(dir.join(MANIFEST), Permissions::from_mode(0o644)).with_context(cannot)?;
        self.place(&text, force)
    }

    /// Moves the directory into place; `text` is its manifest.
    pub(super) fn place(self, text: &str, force: bool) -> anyhow::Result<WriteOutcome> {
        let dir = self.dir();
        let cannot = || format!("cannot put the bundle at `{}`", self.out.display());
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).with_context(cannot)?;
        if is_bundle(&self.out) {
            if read_manifest(&self.out).is_ok_and(|known| known == text.as_bytes())
                && super::verify(&self.out).is_ok()
            {
                return Ok(WriteOutcome::Unchanged);
            }
            if !force {
                let message = format!("`{}` is another bundle", self.out.display());
                let hint = "`--force` replaces it";
                return Err(Failure::new(Exit::Usage, message).hint(hint).into());
            }
            durable::rename_unsynced(&self.out, &self.workshop.path().join("old")).with_context(cannot)?;
        }
        durable::rename_unsynced(&dir, &self.out).with_context(cannot)?;
        Ok(WriteOutcome::Written)
    }
}

fn file(path: &Path, size: u64, sha256: Digest, executable: bool) -> std::io::Result<Content> {
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    Ok(Content::File { size, sha256, mode: format!("{mode:04o}") })
}

/// Copies a file, and checks it for secrets on the way.
fn copy(
    from: &Path,
    to: &Path,
    finders: &[(&Forbidden, Finder)],
    buffer: &mut Vec<u8>,
    cannot: impl Fn() -> String,
) -> anyhow::Result<(u64, Digest)> {
    let unreadable = |error| Failure::config(format!("cannot read `{}`: {error}", from.display()));
    let (mut input, _) = regular_file::open(from).map_err(unreadable)?;
    let mut output = File::create_new(to).with_context(&cannot)?;
    let mut hasher = Sha256::new();
    // Keep the end of a block before the next one: a value may span both.
    let overlap = finders.iter().map(|(secret, _)| secret.value.len() - 1).max().unwrap_or(0);
    let mut kept = 0;
    let mut size = 0;
    buffer.resize(BUFFER + overlap, 0);
    loop {
        let length = input.read(&mut buffer[kept..kept + BUFFER]).map_err(unreadable)?;
        if length == 0 {
            break;
        }
        let block = &buffer[kept..kept + length];
        hasher.update(block);
        output.write_all(block).with_context(&cannot)?;
        size += length as u64;
        let seen = &buffer[..kept + length];
        if let Some((secret, _)) = finders.iter().find(|(_, finder)| finder.find(seen).is_some()) {
            let (message, hint) = leak(&from.display().to_string(), &secret.name);
            return Err(Failure::config(message).hint(hint).into());
        }
        let keep = overlap.min(kept + length);
        buffer.copy_within(kept + length - keep..kept + length, 0);
        kept = keep;
    }
    Ok((size, Digest::finish(hasher)))
}
