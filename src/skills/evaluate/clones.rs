//! Updates the clones without affecting other processes, and resolves commits.

use std::path::{Path, PathBuf};

use super::failure::{CheckoutError, CheckoutProblem};
use super::forward::{move_forward, repair};
use super::workspace::{CloneSource, Update, Workspace};
use crate::git::{self, ObjectId, Remote, Repository, Worktree};
use crate::github;
use crate::model::{CommitSha, Secret, ShaPrefix};
use crate::util::backoff;

/// The ref of the remote's default branch: no branch of the clone moves with it.
const DEFAULT: &str = "refs/run-evals/default";

/// A clone with the remote's current default branch.
#[derive(Debug)]
pub(super) struct OpenClone {
    pub(super) repository: Repository,
    /// Its top directory.
    pub(super) root: PathBuf,
    /// The commit that is checked out.
    pub(super) head: ObjectId,
    /// The name of the default branch.
    pub(super) branch: String,
    /// Its commit.
    pub(super) default: ObjectId,
    remote: Option<Remote>,
}

/// A remote and its credentials.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    pub(super) url: Option<String>,
    token: Option<Secret>,
}

impl Origin {
    /// An address and its token.
    pub(super) fn new(url: &str, token: Option<Secret>) -> Self {
        Self { url: Some(url.to_owned()), token }
    }
}

type Result<T> = std::result::Result<T, CheckoutError>;

/// Finds a clone's remote, and gets a token if that is GitHub.
pub(super) async fn origin_of(workspace: &Workspace, source: &CloneSource) -> Result<Origin> {
    let worktree = unseen(&source.dir)?;
    let Some(url) = worktree.origin else { return Ok(Origin::default()) };
    let Some((client, repo, git_url)) = workspace
        .github
        .as_ref()
        .and_then(|client| client.repo_of(&url).map(|(repo, git_url)| (client, repo, git_url)))
    else {
        return if is_http(&url) {
            Ok(Origin { url: Some(url), token: None })
        } else {
            Err(no_way(&source.dir))
        };
    };
    let token = client.git_token(&repo).await.map_err(|error: github::ApiError| {
        CheckoutError::of(CheckoutProblem::Pull, anyhow::Error::new(error.into_failure()))
    })?;
    Ok(Origin { url: Some(git_url), token: Some(token) })
}

/// Fetches the default branch without changing the checkout.
pub(super) fn open(source: &CloneSource, origin: Origin) -> Result<OpenClone> {
    let worktree = unseen(&source.dir)?;
    let pull = |error| CheckoutError::of(CheckoutProblem::Pull, error);
    let repository =
        Repository::around(&worktree.root).map_err(pull)?.ok_or_else(|| no_clone(&source.dir))?;
    if source.is_kept() {
        repair(&repository, &worktree.root).map_err(pull)?;
    }
    remove_broken_ref(&repository.dir().join(DEFAULT));
    let head = repository.commit_named("HEAD").map_err(pull)?;
    let head = head.ok_or_else(|| {
        let message = format!("`{}` has no commit yet", source.dir.display());
        CheckoutError::new(CheckoutProblem::Invalid, message)
    })?;
    let Some(url) = origin.url else {
        // There is no remote: the checkout is all there is.
        let default = head.clone();
        return Ok(OpenClone {
            repository,
            root: worktree.root,
            head,
            branch: "HEAD".to_owned(),
            default,
            remote: None,
        });
    };
    let remote = Remote::new(&url, origin.token);
    let branch = patiently(&remote, || repository.remote_default_branch(&remote))?.ok_or_else(|| {
        let message = format!("`{}` has no default branch", remote.url());
        CheckoutError::new(CheckoutProblem::Pull, message).hint("is it empty?")
    })?;
    patiently(&remote, || repository.fetch_reference(&remote, &branch, DEFAULT, false))?;
    let default = repository.commit_named(DEFAULT).map_err(pull)?;
    let default = default.ok_or_else(|| {
        let message = format!("`{}` has no branch `{branch}`", remote.url());
        CheckoutError::new(CheckoutProblem::Pull, message)
    })?;
    Ok(OpenClone { repository, root: worktree.root, head, branch, default, remote: Some(remote) })
}

impl OpenClone {
    /// Fast-forwards the clone's branch and files to the default branch, as `git pull --ff-only` does.
    pub(super) fn pull(&mut self) -> Result<()> {
        let (dir, branch) = (self.root.display().to_string(), self.branch.clone());
        self.must_be_clean(|_| true)?;
        if self.head == self.default {
            return Ok(());
        }
        let forward = self.repository.is_ancestor(&self.default, &self.head);
        if !forward.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))? {
            let message = format!(
                "`{dir}` cannot be fast-forwarded: its commit {} is not part of `{branch}` at `{}`, which is {} now",
                short(&self.head),
                self.remote.as_ref().map_or("", Remote::url),
                short(&self.default)
            );
            let hint = format!(
                "the remote's history was rewritten, or the clone has its own commits; `git -C {dir} fetch origin && \
                 git -C {dir} checkout -B {branch} origin/{branch}` makes the clone what the remote is"
            );
            return Err(CheckoutError::new(CheckoutProblem::Diverged, message).hint(hint));
        }
        self.repository.remove_stale_locks();
        move_forward(&self.repository, &self.root, &self.head, &self.default).map_err(|error| {
            CheckoutError::of(CheckoutProblem::Pull, error.context(format!("cannot fast-forward `{dir}`")))
        })?;
        self.head = self.default.clone();
        Ok(())
    }

    /// Refuses uncommitted changes, and untracked files that matter.
    pub(super) fn must_be_clean(&self, untracked_matter: impl Fn(&str) -> bool) -> Result<()> {
        let worktree = worktree(&self.root)?;
        let changed =
            worktree.changed.iter().find(|path| !worktree.untracked.contains(path) || untracked_matter(path));
        let Some(path) = changed else { return Ok(()) };
        let message = format!(
            "`{}` has uncommitted changes, such as `{}`",
            self.root.display(),
            crate::model::printable(path)
        );
        Err(CheckoutError::new(CheckoutProblem::Dirty, message)
            .hint("only commits are evaluated: commit or discard the changes"))
    }

    /// Resolves an abbreviated commit, which must be part of the default branch.
    pub(super) fn resolve(&self, digits: &ShaPrefix) -> Result<CommitSha> {
        let pull = |error| CheckoutError::of(CheckoutProblem::Pull, error);
        let mut found = self.repository.ancestors_named(&self.default, digits.as_str()).map_err(pull)?;
        if found.is_empty() && self.deepen()? {
            found = self.repository.ancestors_named(&self.default, digits.as_str()).map_err(pull)?;
        }
        let branch = &self.branch;
        let there = self.remote.as_ref().map(|remote| format!(" at `{}`", remote.url())).unwrap_or_default();
        match found.as_slice() {
            [one] => commit_sha(one),
            [] => {
                let known = self.repository.commit_named(digits.as_str()).map_err(pull)?;
                let (problem, hint) = if known.is_some() {
                    (
                        CheckoutProblem::NotAncestor,
                        "only commits of the default branch are evaluated: merge it first",
                    )
                } else {
                    (
                        CheckoutProblem::UnknownSha,
                        "use a commit of the default branch, with at least 7 digits",
                    )
                };
                let message = format!("`{digits}` is not part of the history of `{branch}`{there}");
                Err(CheckoutError::new(problem, message).hint(hint))
            }
            several => {
                let message = format!("`{digits}` matches {} commits of `{branch}`", several.len());
                Err(CheckoutError::new(CheckoutProblem::UnknownSha, message).hint("use more digits"))
            }
        }
    }

    /// Whether a commit is part of the default branch.
    pub(super) fn is_on_default(&self, commit: &ObjectId) -> Result<bool> {
        let ask = || {
            let known = self.repository.is_ancestor(&self.default, commit);
            known.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))
        };
        Ok(ask()? || self.deepen()? && ask()?)
    }

    /// The commit with this SHA, fetched if necessary.
    pub(super) fn commit(&self, sha: &CommitSha) -> Result<ObjectId> {
        let find = || {
            let found = self.repository.commit_named(sha.as_str());
            found.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))
        };
        let mut found = find()?;
        if found.is_none() && self.deepen()? {
            found = find()?;
        }
        found.ok_or_else(|| {
            let message = format!("`{}` no longer has the commit {}", self.root.display(), sha.short());
            CheckoutError::new(CheckoutProblem::UnknownSha, message)
                .hint("start the evaluation again with another id")
        })
    }

    /// The bytes of a file; `None` if the commit does not have it.
    pub(super) fn file(&self, commit: &ObjectId, path: &str, most: u64) -> anyhow::Result<Option<Vec<u8>>> {
        self.repository.read_blob(&format!("{commit}:{path}"), |size, content| {
            anyhow::ensure!(size <= most, "`{path}` has {size} bytes, more than {most}");
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Fetches the missing history of a shallow clone. Returns whether it did.
    fn deepen(&self) -> Result<bool> {
        let Some(remote) = &self.remote else { return Ok(false) };
        let pull = |error| CheckoutError::of(CheckoutProblem::Pull, error);
        if !self.repository.is_shallow().map_err(pull)? {
            return Ok(false);
        }
        patiently(remote, || self.repository.fetch_reference(remote, &self.branch, DEFAULT, true))
            .map_err(|error| error.hint("the clone is shallow: set `fetch-depth: 0` at `actions/checkout`"))
    }
}

/// Runs git in a clone, for what [`Repository`] does not support.
pub(super) fn git_in(repository: &Repository, root: &Path) -> anyhow::Result<git::IsolatedRepo> {
    git::IsolatedRepo::foreign(repository.dir(), root)
}

/// Parses a commit SHA.
pub(super) fn commit_sha(text: &str) -> Result<CommitSha> {
    text.parse().map_err(|_| {
        let message = format!("`{}` is not a commit SHA", crate::model::printable(text));
        CheckoutError::new(CheckoutProblem::Invalid, message).hint("SHA-256 repositories are not supported")
    })
}

pub(super) fn short(commit: &ObjectId) -> String {
    commit.to_string().chars().take(7).collect()
}

fn worktree(dir: &Path) -> Result<Worktree> {
    let found = if dir.is_dir() { Worktree::of(dir) } else { Ok(None) };
    found.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))?.ok_or_else(|| no_clone(dir))
}

/// The same without checking its files.
fn unseen(dir: &Path) -> Result<Worktree> {
    let found = if dir.is_dir() { Worktree::unseen(dir) } else { Ok(None) };
    let found = found.map_err(|error| CheckoutError::of(CheckoutProblem::Invalid, error))?;
    found.ok_or_else(|| no_clone(dir))
}

fn no_clone(dir: &Path) -> CheckoutError {
    let message = format!("`{}` is not a git clone", dir.display());
    CheckoutError::new(CheckoutProblem::Invalid, message).hint("use a directory created by `git clone`")
}

fn no_way(dir: &Path) -> CheckoutError {
    let message = format!("the remote `origin` of `{}` is not reached over `https://`", dir.display());
    CheckoutError::new(CheckoutProblem::Pull, message)
        .hint("`git remote set-url origin https://…` changes it; a token is used where there is one")
}

fn is_http(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Runs a command that uses the remote; retries transient failures.
pub(super) fn patiently<T>(remote: &Remote, run: impl FnMut() -> anyhow::Result<T>) -> Result<T> {
    git::retry(remote, backoff::CLONE.attempts(), run)
        .map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))
}

/// A power cut can leave a ref empty, and git refuses to replace it. Ours is fetched again.
fn remove_broken_ref(file: &Path) {
    let is_name = |bytes: &[u8]| bytes.len() >= 40 && bytes[..40].iter().all(u8::is_ascii_hexdigit);
    if std::fs::read(file).is_ok_and(|bytes| !is_name(&bytes)) {
        tracing::warn!("`{}` is damaged and was removed", file.display());
        let _ = std::fs::remove_file(file);
    }
}

impl CloneSource {
    /// Whether it is a permanent clone that is updated.
    pub(super) fn is_kept(&self) -> bool {
        self.update == Update::Pull
    }
}
