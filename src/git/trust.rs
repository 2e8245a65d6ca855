//! Secures a repository on disk before git opens it.
//!
//! An exchange is usually inside a checkout and may be part of it. Git would follow its symlinks, read
//! objects from elsewhere, fetch missing ones and run programs that its configuration names. So its
//! configuration is replaced, and the rest is rejected.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::config::config_file;
use crate::model::{Failure, printable};
use crate::util::durable;

/// The configuration of every repository of ours.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// With SHA-256 object ids.
const CONFIG_SHA256: &str = "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n";

/// What an exchange never needs, and what git would do with it.
const REFUSED: [(&str, &str); 8] = [
    ("commondir", "makes the repository part of another one"),
    ("gitdir", "makes the repository part of another one"),
    ("config.worktree", "is a second configuration"),
    ("objects/info/alternates", "makes git read objects from elsewhere"),
    ("objects/info/http-alternates", "makes git read objects from elsewhere"),
    ("worktrees", "has work trees of the repository"),
    ("modules", "has repositories of submodules"),
    ("reftable", "has references in a form that is not supported"),
];

/// Rejects (exit 3) a bare repository that makes git leave its directory, and replaces its configuration.
pub fn secure(dir: &Path) -> anyhow::Result<()> {
    reject_untrusted(dir)?;
    own_config(dir)
}

/// Rejects (exit 3) a bare repository that makes git, or a repair, leave its directory. Changes nothing.
pub fn reject_untrusted(dir: &Path) -> anyhow::Result<()> {
    let refuse = |path: &Path, why: &str| {
        let inner = path.strip_prefix(dir).unwrap_or(path);
        let inner = if inner.as_os_str().is_empty() { dir } else { inner };
        Failure::config(format!(
            "the exchange `{}` is not trusted: `{}` {why}",
            printable(&dir.display().to_string()),
            printable(&inner.display().to_string())
        ))
        .hint("it may have come with a checkout: remove it, or pass another path with `--exchange`")
    };
    for (name, why) in REFUSED {
        let path = dir.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(refuse(&path, why).into());
        }
    }
    for entry in walkdir::WalkDir::new(dir) {
        let entry = match entry {
            Ok(entry) => entry,
            // Other processes work here too.
            Err(error)
                if error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound) =>
            {
                continue;
            }
            Err(error) => return Err(error).context("cannot read all of the exchange"),
        };
        if entry.path_is_symlink() {
            return Err(refuse(entry.path(), "is a link").into());
        }
        if !entry.file_type().is_dir() && !entry.file_type().is_file() {
            return Err(refuse(entry.path(), "is neither a file nor a directory").into());
        }
        let has_end = |end: &str| entry.path().extension().is_some_and(|known| known == end);
        if entry.path().parent() == Some(&dir.join("hooks")) && !has_end("sample") {
            return Err(refuse(entry.path(), "is a hook").into());
        }
        if has_end("promisor") && entry.path().starts_with(dir.join("objects")) {
            return Err(refuse(entry.path(), "makes git fetch missing objects").into());
        }
    }
    Ok(())
}

/// Replaces the configuration of a bare repository.
pub fn own_config(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("config");
    let known = fs::read(&file).unwrap_or_default();
    if known == CONFIG.as_bytes() || known == CONFIG_SHA256.as_bytes() {
        return Ok(());
    }
    // An unreadable file has no usable settings.
    let settings = if known.is_empty() { Vec::new() } else { config_file(&file).unwrap_or_default() };
    let is_sha256 = settings.iter().any(|(key, value)| key == "extensions.objectformat" && value == "sha256");
    let ours = if is_sha256 { CONFIG_SHA256 } else { CONFIG };
    durable::write(&file, ours.as_bytes()).with_context(|| format!("cannot write `{}`", file.display()))
}
