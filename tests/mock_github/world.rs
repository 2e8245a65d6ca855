//! Everything that the simulated GitHub knows, and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore};

use crate::faults::Faults;
use crate::git::Bare;
use crate::limits::Limits;
use crate::openapi::OpenApi;
use crate::options::Options;
use crate::run::Run;
use crate::wire::{
    CommentView, CommitCommentView, IssueView, PullView, Push, Ready, Recorded, TokenKind, Violation,
};

/// The server's state and what never changes.
pub(crate) struct World {
    /// The command line.
    pub(crate) options: Options,
    /// Where everything is found.
    pub(crate) urls: Ready,
    /// GitHub's description.
    pub(crate) openapi: OpenApi,
    /// The machines.
    pub(crate) machines: Semaphore,
    /// Told whenever a run, a push or an artifact is new or changed.
    pub(crate) changed: Notify,
    started: Instant,
    state: Mutex<State>,
}

/// What changes.
#[derive(Default)]
pub(crate) struct State {
    /// By lower-case `owner/name`.
    pub(crate) repos: BTreeMap<String, Repo>,
    /// By their text.
    pub(crate) tokens: BTreeMap<String, Token>,
    /// By id.
    pub(crate) apps: BTreeMap<u64, App>,
    /// By id.
    pub(crate) runs: BTreeMap<u64, Run>,
    /// By id.
    pub(crate) artifacts: BTreeMap<u64, Artifact>,
    /// By the name in their address.
    pub(crate) blobs: BTreeMap<String, Blob>,
    /// `ACTIONS_RUNTIME_TOKEN`s: the run and the job that each is of.
    pub(crate) runtime_tokens: BTreeMap<String, (u64, u64)>,
    /// By repository and group: the run that holds it, and the one that waits.
    pub(crate) groups: BTreeMap<(String, String), Group>,
    /// What goes wrong.
    pub(crate) faults: Faults,
    /// Who has how many requests left.
    pub(crate) limits: Limits,
    /// Every request.
    pub(crate) requests: Vec<Recorded>,
    /// What should not have been.
    pub(crate) violations: Vec<Violation>,
    /// Every push.
    pub(crate) pushes: Vec<Push>,
    /// Every comment, in order.
    pub(crate) comments: Vec<CommentView>,
    /// Every pull request, in order.
    pub(crate) pulls: Vec<PullView>,
    /// Every issue, in order.
    pub(crate) issues: Vec<IssueView>,
    /// Every comment on a commit, in order.
    pub(crate) commit_comments: Vec<CommitCommentView>,
    last_id: u64,
}

/// A repository.
#[derive(Debug, Clone)]
pub(crate) struct Repo {
    /// Its number.
    pub(crate) id: u64,
    /// Its owner.
    pub(crate) owner: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether only those see it who may.
    pub(crate) private: bool,
    /// Whether it is read-only.
    pub(crate) archived: bool,
    /// Whether pull requests may merge themselves.
    pub(crate) allow_auto_merge: bool,
    /// For example `main`.
    pub(crate) default_branch: String,
    /// What `${{ secrets.NAME }}` gives.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Further variables of every leg.
    pub(crate) machine_env: BTreeMap<String, String>,
    /// By path: the number, and whether it is switched off.
    pub(crate) workflows: BTreeMap<String, WorkflowState>,
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// Its data.
    pub(crate) bare: Bare,
}

impl Repo {
    /// `owner/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

/// What is known of a workflow besides its file.
#[derive(Debug, Clone)]
pub(crate) struct WorkflowState {
    /// Its number.
    pub(crate) id: u64,
    /// `active`, `disabled_manually`, ….
    pub(crate) state: String,
    /// How many runs it had.
    pub(crate) runs: u64,
}

/// A token that is accepted.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// Whose.
    pub(crate) login: String,
    /// What kind.
    pub(crate) kind: TokenKind,
    /// By lower-case `owner/name`: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// When it is no longer.
    pub(crate) expires_at: Option<Timestamp>,
}

/// A GitHub App.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// What its JWTs are checked with.
    pub(crate) public_key_pem: String,
    /// By `owner/name`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// By lower-case owner: the number of the installation.
    pub(crate) installations: BTreeMap<String, u64>,
    /// How long a token lives.
    pub(crate) token_seconds: u64,
}

/// A finished artifact.
#[derive(Debug, Clone)]
pub(crate) struct Artifact {
    /// Its number.
    pub(crate) id: u64,
    /// Of which run.
    pub(crate) run: u64,
    /// Its name.
    pub(crate) name: String,
    /// How many bytes.
    pub(crate) size: u64,
    /// `sha256:…`.
    pub(crate) digest: String,
    /// When it was finished.
    pub(crate) created_at: Timestamp,
    /// When it is gone.
    pub(crate) expires_at: Timestamp,
    /// Its blob's name.
    pub(crate) blob: String,
}

/// What was uploaded to one address.
#[derive(Debug, Default)]
pub(crate) struct Blob {
    /// Blocks that are not yet in the list, by id.
    pub(crate) blocks: BTreeMap<String, Vec<u8>>,
    /// The content, once the list came.
    pub(crate) content: Option<Vec<u8>>,
    /// For the answer.
    pub(crate) content_type: String,
    /// What an address must carry, and until when.
    pub(crate) signatures: BTreeMap<String, Instant>,
    /// Of which artifact, while it is being uploaded.
    pub(crate) upload: Option<Upload>,
}

/// An artifact that is being uploaded.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    /// Of which run.
    pub(crate) run: u64,
    /// Its name.
    pub(crate) name: String,
    /// When it is gone.
    pub(crate) expires_at: Timestamp,
}

/// A concurrency group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Who holds it.
    pub(crate) running: Option<u64>,
    /// Who is next.
    pub(crate) pending: Option<u64>,
}

impl World {
    /// A world without repositories.
    pub(crate) fn new(options: Options, urls: Ready) -> anyhow::Result<Self> {
        Ok(Self {
            machines: Semaphore::new(options.max_jobs),
            openapi: OpenApi::load()?,
            options,
            urls,
            changed: Notify::new(),
            started: Instant::now(),
            // Larger than 32 bits, as GitHub's are.
            state: Mutex::new(State { last_id: 17_000_000_000, ..State::default() }),
        })
    }

    /// The state, for a moment.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    pub(crate) fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A simulated time in real time.
    pub(crate) fn simulated(&self, seconds: f64) -> Duration {
        Duration::from_millis(self.options.second_ms).mul_f64(seconds)
    }

    /// Where bare repositories are.
    pub(crate) fn git_root(&self) -> PathBuf {
        self.options.dir.join("git")
    }

    /// A repository by its name.
    pub(crate) fn repo(&self, full_name: &str) -> Option<Repo> {
        self.lock().repos.get(&full_name.to_lowercase()).cloned()
    }

    /// Waits until this is true, and looks after every change.
    pub(crate) async fn until(&self, mut is_so: impl FnMut(&State) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is_so(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Changes a run, and tells it.
    pub(crate) fn change<T>(&self, run: u64, change: impl FnOnce(&mut Run) -> T) -> Option<T> {
        let result = self.lock().runs.get_mut(&run).map(|run| {
            run.updated_at = Timestamp::now();
            change(run)
        });
        self.changed.notify_waiters();
        result
    }

    /// Notes something that should not have been.
    pub(crate) fn violation(&self, request: impl Into<String>, reason: impl Into<String>) {
        self.lock().violations.push(Violation { request: request.into(), reason: reason.into() });
    }
}

impl State {
    /// A new number.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The artifacts of a run.
    pub(crate) fn names_of_artifacts(&self, run: u64) -> BTreeSet<&str> {
        self.artifacts
            .values()
            .filter(|artifact| artifact.run == run)
            .map(|artifact| artifact.name.as_str())
            .collect()
    }
}

/// A time as GitHub writes it.
pub(crate) fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Random lower-case hex digits.
pub(crate) fn random_hex(digits: usize) -> String {
    (0..digits).map(|_| char::from_digit(fastrand::u32(0..16), 16).unwrap_or('0')).collect()
}

/// A random UUID.
pub(crate) fn random_uuid() -> String {
    let hex = random_hex(32);
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}
