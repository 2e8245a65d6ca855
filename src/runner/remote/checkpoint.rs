//! Checkpoints: saves rows during the calls, because the machine may disappear at any moment.
//!
//! Rows are pushed to the results branch. They go to artifacts if the workflow run has too many shards for
//! that, if the dispatcher asks for it, or if the branch rejects them permanently. If nothing accepts them,
//! they go to a file in the workspace. After a failed checkpoint, the next one includes its rows.

use std::fs;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::artifacts::{MOST_CHECKPOINTS, upload};
use super::{Level, Notify, blocking};
use crate::exchange::{LocalExchange, Publication, PublishError};
use crate::git::Remote;
use crate::github::ResultsService;
use crate::model::{BatchId, Exit, Failure, printable};
use crate::protocol::ResultsManifest;
use crate::protocol::names::RowsArtifact;
use crate::util::backoff::jitter;
use crate::util::clock;

/// Jitter of the interval, so that the shards do not push at once.
const JITTER: f64 = 0.2;
const SHORTEST_INTERVAL: Duration = Duration::from_mins(1);
/// All shards together push at most five times a minute, as GitHub recommends.
const INTERVAL_PER_SHARD: Duration = Duration::from_secs(12);
/// Interval of artifact uploads; each shard has its own artifacts.
const ARTIFACT_INTERVAL: Duration = Duration::from_secs(90);
/// After this many artifacts, each interval is longer than the last, so that their number stays below the
/// limit.
const PLENTY_OF_ARTIFACTS: u32 = 300;
const STRETCH: f64 = 1.05;
/// Time limit of a checkpoint during the calls.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time limit for claiming the branch before the first call.
const CLAIM_PATIENCE: Duration = Duration::from_mins(1);
/// Delay between attempts to upload the final rows.
const UPLOAD_WAIT: Duration = Duration::from_secs(5);
/// Folder in the workspace for rows.
const FOLDER: &str = "run-evals-results";

/// Where the rows of a shard are saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedRows {
    Branch,
    /// At least the last ones are in artifacts.
    Artifacts,
    /// Nothing else accepted the last ones: they are in this file in the workspace.
    File(PathBuf),
    /// The last ones could not even be written to a file.
    Nowhere,
}

/// State shared by all checkpoints of a shard.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) exchange: Arc<LocalExchange>,
    pub(super) batch_id: BatchId,
    pub(super) shard: u32,
    pub(super) remote: Remote,
    pub(super) service: Option<ResultsService>,
    pub(super) workspace: Option<PathBuf>,
}

/// The checkpoints of a shard.
pub(super) struct Checkpoints {
    store: Arc<Store>,
    /// Whether rows go to the results branch.
    branch: bool,
    label: RowsArtifact,
    /// Length of the journal that is saved elsewhere.
    published: u64,
    shards: usize,
    next: Instant,
    running: Option<Pin<Box<dyn Future<Output = CheckpointResult>>>>,
    notify: Notify,
}

/// Time to the next checkpoint: to the branch with this many shards, or as another artifact after this
/// many.
fn interval(shards: usize, branch: bool, artifacts: u32) -> Duration {
    if branch {
        return SHORTEST_INTERVAL.max(INTERVAL_PER_SHARD * u32::try_from(shards).unwrap_or(u32::MAX));
    }
    let beyond = i32::try_from(artifacts.saturating_sub(PLENTY_OF_ARTIFACTS)).unwrap_or(i32::MAX);
    ARTIFACT_INTERVAL.mul_f64(STRETCH.powi(beyond.min(200)))
}

/// Result of one checkpoint.
struct CheckpointResult {
    label: RowsArtifact,
    /// Length of the journal that is saved.
    result: Result<u64, CheckpointError>,
}

enum CheckpointError {
    /// The branch rejects these rows permanently.
    Refused(String),
    /// A retry may succeed.
    Passing(anyhow::Error),
}

impl Checkpoints {
    /// For a shard whose journal is saved up to `published`.
    pub(super) fn new(
        store: Store,
        branch: bool,
        attempt: u32,
        published: u64,
        shards: usize,
        notify: &Notify,
    ) -> Self {
        let label = RowsArtifact { shard: store.shard, attempt, sequence: 0 };
        let next = Instant::now() + clock::wait(jitter(interval(shards, branch, 0), JITTER));
        let notify = Arc::clone(notify);
        Self { store: Arc::new(store), branch, label, published, shards, next, running: None, notify }
    }

    /// Creates the results branch before the first call, or learns that it is rejected, which then has cost
    /// nothing.
    pub(super) async fn claim(&mut self) -> anyhow::Result<()> {
        if self.branch {
            let store = Arc::clone(&self.store);
            let claimed = tokio::task::spawn_blocking(move || {
                let claim = Publication { claim: true, ..Publication::default() };
                store.exchange.publish_whole_to(&store.remote, &store.batch_id, &claim, CLAIM_PATIENCE)
            });
            match claimed.await.context("a thread ended unexpectedly")? {
                Ok(()) => return Ok(()),
                Err(PublishError::Refused(words)) => self.refuse(&words),
                Err(PublishError::Other(error)) if error.downcast_ref::<Failure>().is_some() => {
                    return Err(error);
                }
                Err(PublishError::Other(error)) => {
                    (self.notify)(
                        Level::Warning,
                        &format!("the results branch cannot be created yet: {error:#}"),
                    );
                    return Ok(());
                }
            }
        }
        if self.store.service.is_none() {
            let message = "the results cannot be stored: artifacts can be uploaded only by the action itself";
            return Err(Failure::config(message)
                .hint("use `uses: agentv/run-evals@v1` instead of `run:`, or results on a branch with at most 16 shards")
                .into());
        }
        Ok(())
    }

    /// Saves rows periodically, forever. May be dropped at any time: `last` completes a running checkpoint.
    pub(super) async fn keep(&mut self) -> std::convert::Infallible {
        loop {
            if let Some(running) = &mut self.running {
                let ended = running.await;
                self.running = None;
                self.take(ended);
            }
            sleep_until(self.next).await;
            let interval = interval(self.shards, self.branch, self.label.sequence);
            self.next = Instant::now() + clock::wait(jitter(interval, JITTER));
            let nowhere = !self.branch && self.store.service.is_none();
            if !nowhere && self.label.sequence < MOST_CHECKPOINTS {
                self.running = Some(Box::pin(self.attempt(PATIENCE, None)));
            }
        }
    }

    /// Saves the final rows, with the manifest if the branch accepts it. Retries until `until`.
    pub(super) async fn last(&mut self, manifest: Option<ResultsManifest>, until: Instant) -> SavedRows {
        if let Some(mut running) = self.running.take() {
            match timeout_at(until, &mut running).await {
                Ok(ended) => _ = self.take(ended),
                Err(_) => return self.leave_in_workspace().await,
            }
        }
        if self.branch {
            let patience = until.saturating_duration_since(Instant::now());
            let attempt = self.attempt(patience, manifest);
            match timeout_at(until, attempt).await.map(|ended| self.take(ended)) {
                Ok(true) => return SavedRows::Branch,
                Ok(false) => {}
                Err(_) => return self.leave_in_workspace().await,
            }
        }
        while self.store.service.is_some() {
            let attempt = self.upload();
            match timeout_at(until, attempt).await.map(|ended| self.take(ended)) {
                Ok(true) => return SavedRows::Artifacts,
                Ok(false) if Instant::now() + UPLOAD_WAIT < until => clock::sleep(UPLOAD_WAIT).await,
                _ => break,
            }
        }
        self.leave_in_workspace().await
    }

    /// Writes unsaved rows to a file in the workspace.
    pub(super) async fn leave_in_workspace(&self) -> SavedRows {
        let (store, from) = (Arc::clone(&self.store), self.published);
        let name = RowsArtifact { sequence: self.label.sequence + 1, ..self.label }.name(&store.batch_id);
        let written = blocking(move || {
            let folder = store.workspace.as_ref().context("`GITHUB_WORKSPACE` is not set")?.join(FOLDER);
            fs::create_dir_all(&folder)?;
            let path = folder.join(format!("{name}.jsonl"));
            if path.exists() {
                fs::remove_file(&path)?;
            }
            store.exchange.copy_journal(&store.batch_id, store.shard, from, &path)?;
            Ok(path)
        });
        match written.await {
            Ok(path) => {
                let text = format!(
                    "the last rows of shard {} could not be saved to the results branch or an artifact: they are in \
                     `{}` of this machine; keep that file with `actions/upload-artifact`, or run the job again, which calls \
                     these requests again",
                    self.store.shard,
                    path.display()
                );
                (self.notify)(Level::Error, &text);
                SavedRows::File(path)
            }
            Err(error) => {
                let text = format!("the last rows of shard {} are lost: {error:#}", self.store.shard);
                (self.notify)(Level::Error, &text);
                SavedRows::Nowhere
            }
        }
    }

    fn attempt(
        &self,
        patience: Duration,
        manifest: Option<ResultsManifest>,
    ) -> impl Future<Output = CheckpointResult> + use<> {
        let (store, from, label, branch) = (Arc::clone(&self.store), self.published, self.label, self.branch);
        async move {
            if branch {
                CheckpointResult { label, result: store.push(from, manifest, patience).await }
            } else {
                store.upload(from, label).await
            }
        }
    }

    fn upload(&self) -> impl Future<Output = CheckpointResult> + use<> {
        let (store, from, label) = (Arc::clone(&self.store), self.published, self.label);
        async move { store.upload(from, label).await }
    }

    /// Records the result of a checkpoint. Returns whether the rows are saved.
    fn take(&mut self, ended: CheckpointResult) -> bool {
        let CheckpointResult { label, result } = ended;
        self.label = label;
        match result {
            Ok(length) => {
                self.published = length;
                return true;
            }
            Err(CheckpointError::Refused(words)) => {
                self.refuse(&words);
                // Do not wait any longer.
                self.next = Instant::now();
            }
            Err(CheckpointError::Passing(error)) => {
                let text = format!("a checkpoint failed; the next one includes its rows: {error:#}");
                (self.notify)(Level::Warning, &text);
            }
        }
        false
    }

    fn refuse(&mut self, words: &str) {
        self.branch = false;
        let branch = self.store.exchange.results_branch(&self.store.batch_id);
        let instead = match self.store.service {
            Some(_) => "the rows are uploaded as artifacts of this run instead, where `collect` finds them",
            None => "the rows will be left in the workspace of this job",
        };
        let text =
            format!("the repository rejected the results branch `{branch}`; {instead}\n{}", lines(words));
        (self.notify)(Level::Error, &text);
    }
}

impl Store {
    /// Publishes the journal from this offset. Returns the published length.
    async fn push(
        self: &Arc<Self>,
        from: u64,
        manifest: Option<ResultsManifest>,
        patience: Duration,
    ) -> Result<u64, CheckpointError> {
        let store = Arc::clone(self);
        let pushed = tokio::task::spawn_blocking(move || {
            let rows = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
            let length = store.exchange.copy_journal(&store.batch_id, store.shard, from, rows.path())?;
            if length == from && manifest.is_none() {
                return Ok(length);
            }
            let (remote, id, manifest) = (&store.remote, &store.batch_id, manifest.as_ref());
            let rows = Some(rows.path());
            store.exchange.publish_to(remote, id, store.shard, rows, manifest, patience)?;
            Ok(length)
        });
        match pushed.await {
            Ok(Ok(length)) => Ok(length),
            Ok(Err(PublishError::Refused(words))) => Err(CheckpointError::Refused(words)),
            Ok(Err(PublishError::Other(error))) => match error.downcast_ref::<Failure>() {
                // Another batch owns the branch, or another branch blocks its name.
                Some(failure) if failure.exit() == Exit::Config => {
                    Err(CheckpointError::Refused(failure.to_string()))
                }
                _ => Err(CheckpointError::Passing(error)),
            },
            Err(error) => Err(CheckpointError::Passing(error.into())),
        }
    }

    /// Uploads the journal from this offset.
    async fn upload(self: &Arc<Self>, from: u64, label: RowsArtifact) -> CheckpointResult {
        let mut label = label;
        let result = self.try_upload(from, &mut label).await.map_err(CheckpointError::Passing);
        CheckpointResult { label, result }
    }

    async fn try_upload(self: &Arc<Self>, from: u64, label: &mut RowsArtifact) -> anyhow::Result<u64> {
        let store = Arc::clone(self);
        let (rows, length) = blocking(move || {
            let rows = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
            let length = store.exchange.copy_journal(&store.batch_id, store.shard, from, rows.path())?;
            Ok((rows, length))
        })
        .await?;
        if length > from {
            let service = self.service.as_ref().context("no artifact service")?;
            upload(service, &self.batch_id, label, rows.path()).await?;
        }
        Ok(length)
    }
}

/// The server's message, line by line.
fn lines(words: &str) -> String {
    words.lines().map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_pushes() {
        let seconds = |shards| interval(shards, true, 0).as_secs();
        assert_eq!([1, 5, 6, 16].map(seconds), [60, 60, 72, 192]);
    }

    #[test]
    fn artifacts_are_frequent_and_never_exceed_the_limit() {
        let interval = |artifacts| interval(256, false, artifacts);
        assert_eq!((interval(0).as_secs(), interval(PLENTY_OF_ARTIFACTS).as_secs()), (90, 90));
        let six_hours: Duration = (0..240).map(interval).sum();
        assert_eq!(six_hours, Duration::from_hours(6));
        // A job on a self-hosted machine may take five days.
        let until_none_is_left: Duration = (0..MOST_CHECKPOINTS).map(interval).sum();
        assert!(until_none_is_left > Duration::from_hours(5 * 24), "{until_none_is_left:?}");
    }
}
