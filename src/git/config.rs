//! Reads and writes configuration files without a repository.

use std::path::Path;

use anyhow::Context as _;

use super::command::Git;
use crate::util::regular_file;

/// Settings that affect how files look on disk, and run nothing.
const HARMLESS: [&str; 9] = [
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.symlinks",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "extensions.objectformat",
];

/// Settings of a configuration file, without includes. Reading it runs nothing.
pub fn config_file(file: &Path) -> anyhow::Result<Vec<(String, String)>> {
    regular_file::check_if_present(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let mut list = Git::new("config")?;
    list.arg("--file").arg(file).args(["--no-includes", "--list", "-z"]).current_dir(Path::new("/"));
    Ok(pairs(&list.run()?))
}

/// Sets a value in a configuration file.
pub fn set_config(file: &Path, key: &str, value: &str) -> anyhow::Result<()> {
    let mut config = Git::new("config")?;
    config.arg("--file").arg(file).args(["--replace-all", key, value]).current_dir(Path::new("/"));
    config.run().map(drop)
}

/// Filters the harmless settings.
pub fn harmless(settings: &[(String, String)]) -> Vec<(String, String)> {
    let is_word = |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    settings
        .iter()
        .filter(|(key, value)| HARMLESS.contains(&key.as_str()) && is_word(value))
        .cloned()
        .collect()
}

/// Parses `key
/// value\0`, git's list format; a key without a value is `true`.
pub(super) fn pairs(listed: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(listed);
    let pair = |entry: &str| match entry.split_once('\n') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.to_owned(), "true".to_owned()),
    };
    text.split('\0').filter(|entry| !entry.is_empty()).map(pair).collect()
}
