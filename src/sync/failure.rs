//! Why a benchmark is not up to date, and the command that resolves it.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::address::without_userinfo;
use super::registry::Benchmark;
use crate::git::GitError;
use crate::model::printable;
use crate::util::path::quoted;

/// The kinds of refusal and failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// It has no source.
    Local,
    /// The repository is on this machine, which was not allowed.
    LocalAddress,
    /// Files were changed, or new ones are in the way.
    LocalChanges,
    /// The clone has commits that the remote does not have.
    Diverged,
    /// Another branch or commit was checked out by hand.
    CheckedOut,
    /// The remote's history no longer contains the local commit.
    ForcePushed,
    /// The directory has files and is not a clone.
    NoClone,
    /// The clone is of another address.
    OtherUrl,
    /// The path cannot be used: a file, a mount point, a linked work tree.
    Place,
    /// A file cannot be read or written.
    Permission,
    /// The disk is full.
    DiskFull,
    /// The branch, tag or commit does not exist.
    UnknownRef,
    /// Authentication is required or was refused.
    Auth,
    /// The repository does not exist, or is not visible.
    NotFound,
    /// The remote is unreachable.
    Unreachable,
    /// git, git-lfs or something else is missing here.
    Missing,
    /// Anything else.
    Failed,
}

/// A benchmark that was not synced; it is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The reason.
    pub reason: String,
    /// The command that resolves it, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(super) fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), fix: None }
    }

    #[must_use]
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Maps any error to a failure of the benchmark.
    pub(super) fn of(error: &anyhow::Error, benchmark: &Benchmark) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        if let Some(missing) = missing_program(error) {
            let failure = Self::new(FailureKind::Missing, missing.to_string());
            return missing.hint_text().map_or_else(|| failure.clone(), |hint| failure.clone().fix(hint));
        }
        if let Some(error) = error.chain().find_map(|cause| cause.downcast_ref::<GitError>()) {
            return of_git(error, benchmark);
        }
        let reason = printable(&format!("{error:#}"));
        let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        match io.map(std::io::Error::kind) {
            Some(std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem) => {
                permission(reason, &benchmark.path)
            }
            Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) => disk_full(&reason),
            Some(std::io::ErrorKind::CrossesDevices | std::io::ErrorKind::ResourceBusy) => {
                mount_point(benchmark)
            }
            _ => Self::new(FailureKind::Failed, reason),
        }
    }
}

/// An error that git could not be started at all, which is not the benchmark's fault.
pub(super) fn missing_program(error: &anyhow::Error) -> Option<&crate::model::Failure> {
    error.chain().find_map(|cause| cause.downcast_ref::<crate::model::Failure>())
}

/// Classifies git's error message.
fn of_git(error: &GitError, benchmark: &Benchmark) -> Failure {
    let says = |words: &[&str]| words.iter().any(|words| error.stderr.contains(words));
    let url =
        benchmark.source.as_ref().map(|source| printable(&without_userinfo(&source.url))).unwrap_or_default();
    let words = printable(
        error
            .stderr
            .lines()
            .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
            .unwrap_or(&error.stderr),
    );
    if says(&["No space left on device", "Disk quota exceeded"]) {
        return disk_full(&words);
    }
    if says(&["transport 'file' not allowed", "transport 'ext' not allowed", "not allowed"])
        && says(&["transport '"])
    {
        return Failure::new(FailureKind::LocalAddress, words)
            .fix("allow directories of this machine with `--allow-local`");
    }
    if says(&["returned error: 403", "returned error: 429"]) && error.is_passing() {
        let command = benchmark.command();
        return Failure::new(FailureKind::Unreachable, format!("`{url}` refused without a reason: {words}")).fix(format!(
            "it may be a rate limit: wait a few minutes, then `{command}`; if it persists, check that the token or the credential helper may read it"
        ));
    }
    let is_auth = [
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "returned error: 401",
        "returned error: 403",
        "Permission denied (publickey",
        "terminal prompts disabled",
        "Host key verification failed",
    ];
    if says(&is_auth) {
        // `insteadOf` may map one to the other.
        let is_ssh = says(&["Permission denied (publickey", "Host key verification failed"]);
        let hint = if url.starts_with("http") && !is_ssh {
            "give git a credential helper for this host (`gh auth setup-git`, `git config --global credential.helper …`); for GitHub, set `GITHUB_TOKEN` to a token that may read it (`Contents: read`)"
        } else {
            "give ssh a key that the host knows, without a passphrase to be typed, and the host's own key (`ssh-keyscan`)"
        };
        return Failure::new(FailureKind::Auth, format!("`{url}` refused access")).fix(hint);
    }
    if says(&["not found", "returned error: 404", "does not exist", "does not appear to be a git repository"])
    {
        let fix = "check `source.url`, and that the token or the credential helper may read it";
        return Failure::new(
            FailureKind::NotFound,
            format!("no repository found at `{url}`, or not accessible with this token"),
        )
        .fix(fix);
    }
    if says(&["returned error: 30"]) {
        let reason = format!("`{url}` redirects to another host, which must not get the token");
        return Failure::new(FailureKind::NotFound, reason)
            .fix("change `source.url` to the repository's current address");
    }
    if error.is_passing()
        || says(&[
            "unable to access",
            "Could not read from remote repository",
            "Connection refused",
            "Connection timed out",
        ])
    {
        return Failure::new(FailureKind::Unreachable, format!("`{url}` cannot be reached: {words}"))
            .fix(benchmark.command());
    }
    if says(&["Permission denied", "Operation not permitted", "Read-only file system"]) {
        return permission(words, &benchmark.path);
    }
    Failure::new(FailureKind::Failed, format!("`git {}` failed: {words}", error.subcommand))
}

fn permission(reason: String, path: &Path) -> Failure {
    let parent = path.parent().unwrap_or(path);
    let fix = format!("let this user write to {} and to everything in {}", quoted(parent), quoted(path));
    Failure::new(FailureKind::Permission, reason).fix(fix)
}

fn disk_full(reason: &str) -> Failure {
    Failure::new(FailureKind::DiskFull, format!("the disk is full: {reason}"))
        .fix("free some space: a sync briefly needs room for two copies of a benchmark")
}

pub(super) fn mount_point(benchmark: &Benchmark) -> Failure {
    let reason =
        format!("`{}` is a mount point, which cannot be replaced in one step", benchmark.path.display());
    Failure::new(FailureKind::Place, reason)
        .fix("mount the directory above it, and let `path` be a directory in it")
}
