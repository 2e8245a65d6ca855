//! `manifest.json`: the content and origin of a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::LeftBehind;
use super::variables::Variable;
use crate::git::Worktree;
use crate::model::{Digest, Failure};
use crate::util::regular_file::{self, SETTINGS};

/// The version of this format.
pub(super) const FORMAT: u32 = 1;

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of this format.
    pub format: u32,
    /// The version of the program that made it.
    pub run_evals: String,
    /// The installed AgentV version, or that of the lock file; `None` if unknown.
    pub agentv: Option<String>,
    /// The AgentV versions that the suite or `package.json` requires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agentv_required: Option<String>,
    /// The suite's name.
    pub name: String,
    /// The number of tests.
    pub tests: u64,
    /// The included targets.
    pub targets: Vec<String>,
    /// `SOURCE_DATE_EPOCH`, else the commit time, else the last change to an included file.
    pub created: Timestamp,
    /// Its origin.
    pub source: Provenance,
    /// The options of the command.
    pub flags: Vec<String>,
    /// The variables that it refers to.
    pub env: Vec<Variable>,
    /// What is left behind, and why.
    pub left_behind: Vec<LeftBehind>,
    /// The files inlined into `eval.yaml` or `targets.yaml`.
    pub inlined: Vec<InlinedFile>,
    /// Everything in it except this file.
    pub files: Vec<FileRecord>,
}

/// The origin of a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The suite's path in the repository.
    pub suite: String,
    /// The URL of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether anything included differs from the commit.
    pub dirty: bool,
    /// What differs.
    pub changed: Vec<String>,
}

/// An inlined file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlinedFile {
    /// Its path in the repository.
    pub source: String,
    /// The digest of its content.
    pub sha256: Digest,
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its path in the bundle.
    pub path: String,
    /// Its path in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its content.
    #[serde(flatten)]
    pub content: Content,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A file.
    File {
        /// The size in bytes.
        size: u64,
        /// The digest.
        sha256: Digest,
        /// `0644`, or `0755` if it is executable.
        mode: String,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        link: String,
    },
}

impl Manifest {
    /// Parses a manifest; a newer format is an error.
    pub fn parse(text: &[u8], shown: &Path) -> Result<Self, Failure> {
        let invalid =
            |what: String| Failure::config(format!("`{}` is not a bundle manifest: {what}", shown.display()));
        let json: serde_json::Value =
            serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))?;
        match json["format"].as_u64() {
            Some(format) if format > u64::from(FORMAT) => Err(Failure::config(format!(
                "`{}` has format {format}, but this version supports {FORMAT}",
                shown.display()
            ))
            .hint("use a newer `run-evals`")),
            Some(_) => serde_json::from_value(json).map_err(|error| invalid(error.to_string())),
            None => Err(invalid("it has no `format`".to_owned())),
        }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }
}

impl Provenance {
    /// The origin, as far as it concerns these sources.
    pub(super) fn new(
        suite: String,
        worktree: Option<&Worktree>,
        root: &Path,
        sources: &BTreeSet<String>,
    ) -> Self {
        let Some(worktree) = worktree else { return Self { suite, ..Self::default() } };
        let in_root = |changed: &String| {
            let path = worktree.root.join(changed);
            path.strip_prefix(root).ok().and_then(Path::to_str).map(ToOwned::to_owned)
        };
        let changed: Vec<String> =
            worktree.changed.iter().filter_map(in_root).filter(|path| sources.contains(path)).collect();
        Self {
            suite,
            repository: worktree.origin.as_deref().and_then(public_address),
            commit: worktree.commit.as_ref().map(|(commit, _)| commit.clone()),
            dirty: !changed.is_empty(),
            changed,
        }
    }
}

/// The URL of a repository that works on other machines, without a password.
fn public_address(url: &str) -> Option<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `git@host:owner/name`
        let (host, path) = url.split_once(':')?;
        let (user, host) = host.rsplit_once('@').filter(|_| !host.contains('/'))?;
        return Some(format!("{}{host}:{}", public_user(user), public_path(path)));
    };
    if !matches!(scheme, "https" | "http" | "ssh" | "git") {
        return None;
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
    let user = if scheme == "ssh" { public_user(user) } else { "" };
    Some(format!("{scheme}://{user}{host}/{}", public_path(path)))
}

/// The user of an SSH URL, if it is the common one; another may be a token.
fn public_user(user: &str) -> &'static str {
    if user == "git" { "git@" } else { "" }
}

/// A path without a query, which may contain a token.
fn public_path(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or_default()
}

/// The AgentV versions that are required: by the suite, or else by the nearest `package.json`.
pub(super) fn agentv_required(required: Option<&str>, dir: &Path, root: &Path) -> Option<String> {
    if let Some(required) = required {
        return Some(required.to_owned());
    }
    dir.ancestors().take_while(|dir| dir.starts_with(root)).find_map(|dir| {
        let json: serde_json::Value =
            serde_json::from_slice(&regular_file::read(&dir.join("package.json"), SETTINGS).ok()?).ok()?;
        let version = |kind: &str| json[kind]["agentv"].as_str().map(ToOwned::to_owned);
        version("dependencies").or_else(|| version("devDependencies"))
    })
}

/// The inlined files, as the manifest lists them.
pub(super) fn inlined(files: &BTreeMap<String, Digest>) -> Vec<InlinedFile> {
    files.iter().map(|(source, sha256)| InlinedFile { source: source.clone(), sha256: *sha256 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_no_password_and_no_local_path() {
        for (url, shown) in [
            ("https://github.com/o/r.git", Some("https://github.com/o/r.git")),
            ("https://me:secret@github.com/o/r", Some("https://github.com/o/r")),
            ("https://ghp_0123456789@github.com/o/r", Some("https://github.com/o/r")),
            ("https://github.com/o/r.git?token=x#y", Some("https://github.com/o/r.git")),
            ("git@github.com:o/r.git", Some("git@github.com:o/r.git")),
            ("ghp_0123456789@github.com:o/r.git", Some("github.com:o/r.git")),
            ("ssh://ghp_0123456789@host:22/o/r", Some("ssh://host:22/o/r")),
            ("ssh://git@host/o/r", Some("ssh://git@host/o/r")),
            ("/home/me/r", None),
            ("file:///home/me/r", None),
            ("../r", None),
        ] {
            assert_eq!(public_address(url).as_deref(), shown, "{url}");
        }
    }
}
