//! Fetches and pushes the branches of a batch from and to the runner repository.
//!
//! The local branch follows the remote one, once that is known to be of the same batch: a branch is fetched under another name
//! first. A commit that the remote rejects is undone, so that the rows can be committed again on top of the remote's state. A
//! branch that is not a results branch of the batch is never changed, on either side.

use std::path::Path;
use std::time::Duration;

use super::local::must_match;
use super::results::foreign;
use super::{LocalExchange, Publication};
use crate::git::{GitError, ObjectId, PushOutcome, Remote, retry};
use crate::model::{BatchId, Digest, Failure};
use crate::protocol::ResultsManifest;
use crate::protocol::names::{HANDOVER_FOLDER, INCOMING_FOLDER, handover_branch};
use crate::util::backoff::RESULTS_BRANCH;

/// The remote branches that a batch needs.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    /// One for its results.
    pub results: bool,
    /// One for itself.
    pub handover: bool,
}

/// Why results were not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The host rejects these rows or this branch, with its message; retrying is useless.
    #[error("the results branch was rejected: {0}")]
    Refused(String),
    /// Anything else; the same rows may be published later.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl LocalExchange {
    /// Fetches the batch on a remote branch into this exchange; `false` if the branch does not exist. Only the tip of the branch
    /// is fetched, because its history may be untrusted.
    pub fn fetch_batch(
        &self,
        remote: &Remote,
        branch: &str,
        id: &BatchId,
        with_history: bool,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        let to = handover_branch(id);
        with_patience(remote, patience, || {
            if with_history {
                self.repository.fetch(remote, branch, &to)
            } else {
                self.repository.fetch_tip(remote, branch, &to)
            }
        })
    }

    /// Refuses a repository (exit 3) in which a branch has the name of a folder that the batch or its results need, and one in which
    /// another batch has results under this id.
    pub fn check_remote(
        &self,
        remote: &Remote,
        id: &BatchId,
        digest: Digest,
        needs: Needs,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let results = self.results_branch(id);
        let mut folders = Vec::new();
        folders.extend(needs.results.then_some(self.results_prefix.as_str()));
        folders.extend(needs.handover.then_some(HANDOVER_FOLDER));
        let mut names: Vec<&str> = folders.iter().copied().flat_map(folder_names).collect();
        names.extend(needs.results.then_some(results.as_str()));
        let there = with_patience(remote, patience, || self.repository.remote_branches(remote, &names))?;
        for folder in folders {
            if folder_names(folder).any(|name| there.iter().any(|there| there == name)) {
                return Err(in_the_way(remote, folder).into());
            }
        }
        if there.contains(&results) {
            let tip = with_patience(remote, patience, || self.incoming(remote, &results))?;
            tip.map(|tip| self.check_owner(remote, id, Some(digest), &tip)).transpose()?;
        }
        Ok(())
    }

    /// Fetches a remote branch for inspection, without changing local branches.
    fn incoming(&self, remote: &Remote, branch: &str) -> anyhow::Result<Option<ObjectId>> {
        // A unique name: several processes may do this at the same time.
        let to = format!("{INCOMING_FOLDER}/{:016x}", fastrand::u64(..));
        if !self.repository.fetch(remote, branch, &to)? {
            return Ok(None);
        }
        let tip = self.repository.tip(&to);
        self.repository.delete_branch(&to)?;
        tip
    }

    /// The batch whose results a remote commit has; it must be the expected one.
    fn check_owner(
        &self,
        remote: &Remote,
        id: &BatchId,
        expected: Option<Digest>,
        tip: &ObjectId,
    ) -> anyhow::Result<Digest> {
        let branch = self.results_branch(id);
        let Some(owner) = self.owner_at(id, &tip.to_string(), &branch)? else {
            return Err(foreign(id, &branch, &remote.url()).into());
        };
        if let Some(expected) = expected.filter(|expected| *expected != owner) {
            let message = format!(
                "the results on `{branch}` of `{}` are of another batch: its digest is {owner}, not {expected}",
                remote.url()
            );
            return Err(Failure::config(message).hint("choose another `--batch-id`").into());
        }
        Ok(owner)
    }

    /// Moves the local results branch to a remote commit, unless either of them belongs to another batch than expected, or than
    /// the one stored under the same id.
    fn follow(
        &self,
        remote: &Remote,
        id: &BatchId,
        expected: Option<Digest>,
        tip: &ObjectId,
    ) -> anyhow::Result<()> {
        let owner = self.check_owner(remote, id, expected, tip)?;
        if let Some(claim) = self.claimed_batch(id)? {
            must_match(id, claim, owner)?;
        }
        let branch = self.results_branch(id);
        if self.repository.tip(&branch)?.is_some() {
            match self.results_batch(id)? {
                Some(here) => must_match(id, here, owner)?,
                None => return Err(foreign(id, &branch, &self.shown().display()).into()),
            }
        } else if let Some(here) = self.stored_digest(&handover_branch(id))? {
            must_match(id, here, owner)?;
        }
        self.set_results(&branch, Some(tip))
    }

    /// Pushes the batch to the branch `eval-batch/<id>` of the runner repository; another batch with that id is an error (exit 3).
    /// Returns whether the branch was created: the same batch may already be there.
    pub fn push_batch(
        &self,
        remote: &Remote,
        id: &BatchId,
        digest: Digest,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        let branch = handover_branch(id);
        let push = || self.repository.push(remote, &branch, true);
        match with_patience(remote, patience, push)? {
            PushOutcome::Done => Ok(true),
            PushOutcome::InTheWay => Err(in_the_way(remote, HANDOVER_FOLDER).into()),
            PushOutcome::Refused(words) => Err(Failure::config(format!(
                "`{}` rejected the branch `{branch}`:\n{words}",
                remote.url()
            ))
            .hint(format!(
                "allow branches `{HANDOVER_FOLDER}/…` in the repository's rulesets, or hand the batch over as an artifact"
            ))
            .into()),
            PushOutcome::Moved(_) => {
                let incoming = format!("{INCOMING_FOLDER}/{id}");
                let fetch = || self.repository.fetch(remote, &branch, &incoming);
                let there = with_patience(remote, patience, fetch)?;
                let digest_there = if there { self.stored_digest(&incoming)? } else { None };
                self.repository.delete_branch(&incoming)?;
                match digest_there {
                    Some(there) => Ok(must_match(id, there, digest).map(|()| false)?),
                    None => anyhow::bail!("the branch `{branch}` of `{}` was deleted concurrently", remote.url()),
                }
            }
        }
    }

    /// Deletes the remote hand-over branch.
    pub fn delete_remote_batch(
        &self,
        remote: &Remote,
        id: &BatchId,
        patience: Duration,
    ) -> anyhow::Result<()> {
        self.delete_remote(remote, &handover_branch(id), None, patience)
    }

    /// Deletes the remote results branch, if it belongs to this batch and does not change meanwhile.
    pub fn delete_remote_results(
        &self,
        remote: &Remote,
        id: &BatchId,
        batch: Digest,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let branch = self.results_branch(id);
        let default = with_patience(remote, patience, || self.repository.remote_default_branch(remote))?;
        if default.as_ref() == Some(&branch) {
            let message = format!("`{branch}` is the default branch of `{}`", remote.url());
            return Err(Failure::config(message).hint("it is never deleted").into());
        }
        let tip = with_patience(remote, patience, || self.incoming(remote, &branch))?;
        let Some(tip) = tip else { return Ok(()) };
        self.check_owner(remote, id, Some(batch), &tip)?;
        self.delete_remote(remote, &branch, Some(&tip), patience)
    }

    fn delete_remote(
        &self,
        remote: &Remote,
        branch: &str,
        tip: Option<&ObjectId>,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let delete = || self.repository.delete_remote_branch(remote, branch, tip);
        match with_patience(remote, patience, delete)? {
            PushOutcome::Done => Ok(()),
            PushOutcome::Refused(words) => {
                anyhow::bail!("`{}` did not delete the branch `{branch}`:\n{words}", remote.url())
            }
            PushOutcome::Moved(_) | PushOutcome::InTheWay => {
                anyhow::bail!("the branch `{branch}` of `{}` was changed meanwhile", remote.url())
            }
        }
    }

    /// Moves the local results branch to the remote one; `false` if there is none.
    ///
    /// A branch that is not a results branch, or belongs to another batch than expected or stored under this id, is an error
    /// (exit 3), and the local branch stays unchanged.
    pub fn fetch_results(
        &self,
        remote: &Remote,
        id: &BatchId,
        expected: Option<Digest>,
        patience: Duration,
    ) -> anyhow::Result<bool> {
        let branch = self.results_branch(id);
        let tip = with_patience(remote, patience, || self.incoming(remote, &branch))?;
        let Some(tip) = tip else { return Ok(false) };
        self.follow(remote, id, expected, &tip).map(|()| true)
    }

    /// Publishes as [`LocalExchange::publish`] does, and pushes the branch; retries lost races within `patience`. On failure, the
    /// local branch is restored.
    pub fn publish_to(
        &self,
        remote: &Remote,
        id: &BatchId,
        shard: u32,
        rows: Option<&Path>,
        manifest: Option<&ResultsManifest>,
        patience: Duration,
    ) -> Result<(), PublishError> {
        let rows: Vec<_> = rows.into_iter().map(|rows| (shard, rows)).collect();
        self.publish_whole_to(remote, id, &Publication { rows: &rows, manifest, claim: false }, patience)
    }

    /// The same for [`LocalExchange::publish_whole`].
    pub fn publish_whole_to(
        &self,
        remote: &Remote,
        id: &BatchId,
        publication: &Publication<'_>,
        patience: Duration,
    ) -> Result<(), PublishError> {
        let branch = self.results_branch(id);
        let mut attempts = RESULTS_BRANCH.within(patience);
        loop {
            let before = self.repository.tip(&branch)?;
            self.publish_whole(id, publication)?;
            let Some(ours) = self.repository.tip(&branch)? else { return Ok(()) };
            let pushed = self.repository.push(remote, &branch, false);
            if let Ok(PushOutcome::Done) = pushed {
                return Ok(());
            }
            self.set_results(&branch, before.as_ref())?;
            let why = match pushed {
                Ok(PushOutcome::Done) => return Ok(()),
                Ok(PushOutcome::Refused(words)) => return Err(PublishError::Refused(words)),
                Ok(PushOutcome::InTheWay) => {
                    return Err(PublishError::Other(in_the_way(remote, &self.results_prefix).into()));
                }
                Ok(PushOutcome::Moved(error)) => error.into(),
                Err(error) if GitError::is_transient(&error) => error,
                Err(error) => return Err(PublishError::Other(remote.explain(error))),
            };
            if !attempts.again() {
                let context = format!("cannot push `{branch}`: tried for {} s", patience.as_secs());
                return Err(PublishError::Other(remote.explain(why).context(context)));
            }
            match self.incoming(remote, &branch) {
                Ok(Some(tip)) => self.follow(remote, id, self.claimed_batch(id)?, &tip)?,
                Ok(None) => self.set_results(&branch, None)?,
                Err(error) if GitError::is_transient(&error) => continue,
                Err(error) => return Err(PublishError::Other(remote.explain(error))),
            }
            // The push succeeded, but its response was lost.
            if self.repository.tip(&branch)?.as_ref() == Some(&ours) {
                return Ok(());
            }
        }
    }

    /// The number of rows on the results branch, by its commit subjects: for progress only.
    pub fn rows_published(&self, id: &BatchId) -> anyhow::Result<u64> {
        let branch = self.results_branch(id);
        if self.repository.tip(&branch)?.is_none() {
            return Ok(0);
        }
        let rows = |subject: &String| subject.strip_prefix("Add ")?.split(' ').next()?.parse::<u64>().ok();
        // The subjects are untrusted.
        Ok(self.repository.subjects(&branch)?.iter().filter_map(rows).fold(0, u64::saturating_add))
    }
}

/// Retries transient failures.
fn with_patience<T>(
    remote: &Remote,
    patience: Duration,
    work: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    retry(remote, RESULTS_BRANCH.within(patience), work)
}

/// A folder of branches and its parent folders: no branch may have such a name.
fn folder_names(folder: &str) -> impl Iterator<Item = &str> {
    folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]).map(|end| &folder[..end])
}

fn in_the_way(remote: &Remote, folder: &str) -> Failure {
    let names: Vec<String> = folder_names(folder).map(|name| format!("`{name}`")).collect();
    let names = names.join(" or ");
    let message =
        format!("a branch {names} of `{}` is in the way of every branch `{folder}/…`", remote.url());
    Failure::config(message).hint(if folder == HANDOVER_FOLDER {
        "rename that branch there, or use another `--handover`"
    } else {
        "rename that branch there, or choose another `results_branch`"
    })
}
