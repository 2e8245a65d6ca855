//! Checkpoints: what has arrived is kept elsewhere while the calls go on, because the machine may be gone the next moment.
//!
//! Rows go to the results branch, one push at a time; to artifacts where the run has too many legs for that, where the
//! dispatcher asks for it, or where the branch is refused for good; and into a file of the workspace where nothing else
//! takes them. A checkpoint that fails is no loss: its rows go with the next.

use std::fs;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::artifacts::{Label, MOST_CHECKPOINTS, upload};
use super::{Level, Notify, blocking};
use crate::exchange::{LocalExchange, Publication, PublishError};
use crate::git::Remote;
use crate::github::ResultsService;
use crate::model::{BatchId, Exit, Failure, ResultsManifest, printable};

const SHORTEST_INTERVAL: Duration = Duration::from_mins(1);
/// All legs together push at most five times a minute, which is what GitHub asks for.
const INTERVAL_PER_LEG: Duration = Duration::from_secs(12);
/// How often rows are uploaded as artifacts, of which each leg has its own.
const ARTIFACT_INTERVAL: Duration = Duration::from_secs(90);
/// After so many artifacts each interval is longer than the one before, so that their number never runs out.
const PLENTY_OF_ARTIFACTS: u32 = 300;
const STRETCH: f64 = 1.05;
/// How long one checkpoint is tried while the calls go on.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the branch is claimed for before the first call.
const CLAIM_PATIENCE: Duration = Duration::from_mins(1);
/// Between two tries to upload the last rows.
const UPLOAD_WAIT: Duration = Duration::from_secs(5);
/// Where rows are left in the workspace.
const FOLDER: &str = "run-evals-results";

/// Where the rows of a leg are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// On the results branch.
    Branch,
    /// In artifacts of the run, the last ones at least.
    Artifacts,
    /// Nothing took the last ones: they are in this file of the workspace.
    File(PathBuf),
    /// The last ones could not even be written to a file.
    Nowhere,
}

/// What all checkpoints of a leg share.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) exchange: Arc<LocalExchange>,
    pub(super) batch_id: BatchId,
    pub(super) shard: u32,
    pub(super) remote: Remote,
    pub(super) service: Option<ResultsService>,
    pub(super) workspace: Option<PathBuf>,
}

/// Keeps the rows of a leg.
pub(super) struct Checkpoints {
    store: Arc<Store>,
    /// Whether rows go to the results branch.
    branch: bool,
    label: Label,
    /// How much of the journal is kept elsewhere.
    published: u64,
    rhythm: Rhythm,
    next: Instant,
    running: Option<Pin<Box<dyn Future<Output = Tried>>>>,
    notify: Notify,
}

/// How often rows are kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rhythm {
    /// As it fits a run of so many legs.
    Legs(usize),
    /// As was asked for.
    Every(Duration),
}

impl Rhythm {
    /// The time to the next checkpoint, on the branch or as one more artifact after so many.
    fn interval(self, branch: bool, artifacts: u32) -> Duration {
        match self {
            Self::Every(every) => every,
            Self::Legs(legs) if branch => {
                SHORTEST_INTERVAL.max(INTERVAL_PER_LEG * u32::try_from(legs).unwrap_or(u32::MAX))
            }
            Self::Legs(_) => {
                let beyond = i32::try_from(artifacts.saturating_sub(PLENTY_OF_ARTIFACTS)).unwrap_or(i32::MAX);
                ARTIFACT_INTERVAL.mul_f64(STRETCH.powi(beyond.min(200)))
            }
        }
    }
}

/// What became of one checkpoint.
struct Tried {
    label: Label,
    /// How much of the journal is kept now.
    result: Result<u64, Trouble>,
}

enum Trouble {
    /// The branch does not take these rows, today or tomorrow.
    Refused(String),
    /// Another time it may work.
    Passing(anyhow::Error),
}

impl Checkpoints {
    /// For a leg whose journal is kept elsewhere up to `published`.
    pub(super) fn new(
        store: Store,
        branch: bool,
        attempt: u32,
        published: u64,
        rhythm: Rhythm,
        notify: &Notify,
    ) -> Self {
        let label = Label { shard: store.shard, attempt, sequence: 0 };
        let next = Instant::now() + jittered(rhythm.interval(branch, 0));
        let notify = Arc::clone(notify);
        Self { store: Arc::new(store), branch, label, published, rhythm, next, running: None, notify }
    }

    /// Before the first call: makes the results branch, or finds out that it cannot be made. What is refused here has cost
    /// nothing yet.
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
                        &format!("the results branch cannot be made yet: {error:#}"),
                    );
                    return Ok(());
                }
            }
        }
        if self.store.service.is_none() {
            let message =
                "the results have nowhere to go: artifacts can be uploaded only by the action itself";
            return Err(Failure::config(message)
                .hint("use `uses: agentv/run-evals@v1` instead of `run:`, or results on a branch with at most 16 shards")
                .into());
        }
        Ok(())
    }

    /// Keeps rows now and then, for ever. May be dropped at any time: a checkpoint that runs is ended by `last`.
    pub(super) async fn keep(&mut self) -> std::convert::Infallible {
        loop {
            if let Some(running) = &mut self.running {
                let ended = running.await;
                self.running = None;
                self.take(ended);
            }
            sleep_until(self.next).await;
            let interval = self.rhythm.interval(self.branch, self.label.sequence);
            self.next = Instant::now() + jittered(interval);
            let nowhere = !self.branch && self.store.service.is_none();
            if !nowhere && self.label.sequence < MOST_CHECKPOINTS {
                self.running = Some(Box::pin(self.attempt(PATIENCE, None)));
            }
        }
    }

    /// Keeps the last rows, with the manifest where the branch takes it; patiently, until some time.
    pub(super) async fn last(&mut self, manifest: Option<ResultsManifest>, until: Instant) -> Kept {
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
                Ok(true) => return Kept::Branch,
                Ok(false) => {}
                Err(_) => return self.leave_in_workspace().await,
            }
        }
        while self.store.service.is_some() {
            let attempt = self.upload();
            match timeout_at(until, attempt).await.map(|ended| self.take(ended)) {
                Ok(true) => return Kept::Artifacts,
                Ok(false) if Instant::now() + UPLOAD_WAIT < until => sleep(UPLOAD_WAIT).await,
                _ => break,
            }
        }
        self.leave_in_workspace().await
    }

    /// Writes what is kept nowhere into a file of the workspace.
    pub(super) async fn leave_in_workspace(&self) -> Kept {
        let (store, from) = (Arc::clone(&self.store), self.published);
        let name = Label { sequence: self.label.sequence + 1, ..self.label }.name(&store.batch_id);
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
                    "the last rows of shard {} could be kept neither on the results branch nor as an artifact: they are in \
                     `{}` of this machine; keep that file with `actions/upload-artifact`, or run the job again, which calls \
                     these requests again",
                    self.store.shard,
                    path.display()
                );
                (self.notify)(Level::Error, &text);
                Kept::File(path)
            }
            Err(error) => {
                let text = format!("the last rows of shard {} are lost: {error:#}", self.store.shard);
                (self.notify)(Level::Error, &text);
                Kept::Nowhere
            }
        }
    }

    fn attempt(
        &self,
        patience: Duration,
        manifest: Option<ResultsManifest>,
    ) -> impl Future<Output = Tried> + use<> {
        let (store, from, label, branch) = (Arc::clone(&self.store), self.published, self.label, self.branch);
        async move {
            if branch {
                Tried { label, result: store.push(from, manifest, patience).await }
            } else {
                store.upload(from, label).await
            }
        }
    }

    fn upload(&self) -> impl Future<Output = Tried> + use<> {
        let (store, from, label) = (Arc::clone(&self.store), self.published, self.label);
        async move { store.upload(from, label).await }
    }

    /// Notes how a checkpoint ended; whether the rows are kept.
    fn take(&mut self, ended: Tried) -> bool {
        let Tried { label, result } = ended;
        self.label = label;
        match result {
            Ok(length) => {
                self.published = length;
                return true;
            }
            Err(Trouble::Refused(words)) => {
                self.refuse(&words);
                // What waits has waited long enough.
                self.next = Instant::now();
            }
            Err(Trouble::Passing(error)) => {
                let text = format!("a checkpoint failed; its rows are kept with the next: {error:#}");
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
            format!("the repository refuses the results branch `{branch}`; {instead}\n{}", lines(words));
        (self.notify)(Level::Error, &text);
    }
}

impl Store {
    /// Publishes what the journal has from here on; tells how much is published then.
    async fn push(
        self: &Arc<Self>,
        from: u64,
        manifest: Option<ResultsManifest>,
        patience: Duration,
    ) -> Result<u64, Trouble> {
        let store = Arc::clone(self);
        let pushed = tokio::task::spawn_blocking(move || {
            let rows = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
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
            Ok(Err(PublishError::Refused(words))) => Err(Trouble::Refused(words)),
            Ok(Err(PublishError::Other(error))) => match error.downcast_ref::<Failure>() {
                // Another batch has the branch, or another branch its name.
                Some(failure) if failure.exit() == Exit::Config => Err(Trouble::Refused(failure.to_string())),
                _ => Err(Trouble::Passing(error)),
            },
            Err(error) => Err(Trouble::Passing(error.into())),
        }
    }

    /// Uploads what the journal has from here on.
    async fn upload(self: &Arc<Self>, from: u64, label: Label) -> Tried {
        let mut label = label;
        let result = self.try_upload(from, &mut label).await.map_err(Trouble::Passing);
        Tried { label, result }
    }

    async fn try_upload(self: &Arc<Self>, from: u64, label: &mut Label) -> anyhow::Result<u64> {
        let store = Arc::clone(self);
        let (rows, length) = blocking(move || {
            let rows = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
            let length = store.exchange.copy_journal(&store.batch_id, store.shard, from, rows.path())?;
            Ok((rows, length))
        })
        .await?;
        if length > from {
            let service = self.service.as_ref().context("there is no artifact service")?;
            upload(service, &self.batch_id, label, rows.path()).await?;
        }
        Ok(length)
    }
}

/// So that the legs of a run do not push all at once.
fn jittered(every: Duration) -> Duration {
    every.mul_f64(0.8 + 0.4 * fastrand::f64())
}

/// What the other side says, each line on its own.
fn lines(words: &str) -> String {
    words.lines().map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_share_the_pushes() {
        let seconds = |legs| Rhythm::Legs(legs).interval(true, 0).as_secs();
        assert_eq!([1, 5, 6, 16].map(seconds), [60, 60, 72, 192]);
        for _ in 0..100 {
            let jittered = jittered(Duration::from_mins(1)).as_secs_f64();
            assert!((48.0..=72.0).contains(&jittered), "{jittered}");
        }
    }

    #[test]
    fn artifacts_come_often_and_never_run_out() {
        let interval = |artifacts| Rhythm::Legs(256).interval(false, artifacts);
        assert_eq!((interval(0).as_secs(), interval(PLENTY_OF_ARTIFACTS).as_secs()), (90, 90));
        let six_hours: Duration = (0..240).map(interval).sum();
        assert_eq!(six_hours, Duration::from_hours(6));
        // A job on a machine of one's own may take five days.
        let until_none_is_left: Duration = (0..MOST_CHECKPOINTS).map(interval).sum();
        assert!(until_none_is_left > Duration::from_hours(5 * 24), "{until_none_is_left:?}");
        assert_eq!(Rhythm::Every(Duration::from_secs(1)).interval(false, 400), Duration::from_secs(1));
    }
}
