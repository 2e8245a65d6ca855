//! Checks, reindexes and unpacks packs damaged by a power cut or a failing disk.

use std::fs::File;
use std::path::Path;

use anyhow::Context as _;

use super::command::Git;
use super::git_dir::GitDir;

/// Verifies every object of a pack and its index.
pub fn verify_pack(git_dir: &Path, index: &Path) -> anyhow::Result<()> {
    let mut verify = Git::at(&GitDir::own(git_dir), "verify-pack")?;
    verify.arg(index);
    verify.run().map(drop)
}

/// Writes the index of a pack; fails if the pack is incomplete.
pub fn index_pack(git_dir: &Path, pack: &Path) -> anyhow::Result<()> {
    let mut index = Git::at(&GitDir::own(git_dir), "index-pack")?;
    index.arg(pack);
    index.run().map(drop)
}

/// Adds the intact objects of a damaged pack that was moved out of the repository.
pub fn salvage_pack(git_dir: &Path, pack: &Path) -> anyhow::Result<()> {
    let file = File::open(pack).with_context(|| format!("cannot read `{}`", pack.display()))?;
    let mut unpack = Git::at(&GitDir::own(git_dir), "unpack-objects")?;
    unpack.args(["-q", "-r"]).stdin(file);
    unpack.run().map(drop)
}
