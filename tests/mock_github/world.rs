//! The state of the simulated GitHub, and its clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, Semaphore};

use crate::faults::Faults;
use crate::git::Bare;
use crate::limits::Limits;
use crate::openapi::OpenApi;
use crate::options::Options;
use crate::run::Run;
use crate::wire::{
    ActionsSettings, CommentView, CommitCommentView, EnvironmentView, IssueView, PullView, Push, Ready,
    Recorded, TokenKind, Violation,
};

/// The server's state and its constants.
pub(crate) struct World {
    /// The command line.
    pub(crate) options: Options,
    /// The addresses.
    pub(crate) urls: Ready,
    /// GitHub's description.
    pub(crate) openapi: OpenApi,
    /// The machines.
    pub(crate) machines: Semaphore,
    /// Opens sealed secrets.
    pub(crate) sealing_key: crypto_box::SecretKey,
    /// Notified whenever a run, a push or an artifact is new or changed.
    pub(crate) changed: Notify,
    started: Instant,
    state: Mutex<State>,
}

/// The mutable state.
#[derive(Default)]
pub(crate) struct State {
    /// By lower-case `owner/name`.
    pub(crate) repos: BTreeMap<String, Repo>,
    /// The plans of owners, by lower-case login.
    pub(crate) plans: BTreeMap<String, String>,
    /// By token.
    pub(crate) tokens: BTreeMap<String, Token>,
    /// By id.
    pub(crate) apps: BTreeMap<u64, App>,
    /// By id.
    pub(crate) runs: BTreeMap<u64, Run>,
    /// By id.
    pub(crate) artifacts: BTreeMap<u64, Artifact>,
    /// By blob name.
    pub(crate) blobs: BTreeMap<String, Blob>,
    /// The run and the job of each `ACTIONS_RUNTIME_TOKEN`.
    pub(crate) runtime_tokens: BTreeMap<String, (u64, u64)>,
    /// By repository and group: the run that holds it, and those that wait.
    pub(crate) groups: BTreeMap<(String, String), Group>,
    /// The faults.
    pub(crate) faults: Faults,
    /// The rate limits.
    pub(crate) limits: Limits,
    /// Every request.
    pub(crate) requests: Vec<Recorded>,
    /// The violations.
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
    /// Whether it is private.
    pub(crate) private: bool,
    /// Whether it is read-only.
    pub(crate) archived: bool,
    /// Whether auto-merge is allowed.
    pub(crate) allow_auto_merge: bool,
    /// For example `main`.
    pub(crate) default_branch: String,
    /// The values of `${{ secrets.NAME }}`.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Secrets of the organization.
    pub(crate) organization_secrets: BTreeMap<String, String>,
    /// By name.
    pub(crate) environments: BTreeMap<String, EnvironmentView>,
    /// The rulesets.
    pub(crate) rulesets: Vec<serde_json::Value>,
    /// Branches with classic protection.
    pub(crate) protected_branches: Vec<String>,
    /// The settings of Actions.
    pub(crate) actions: ActionsSettings,
    /// The values of `${{ vars.NAME }}`.
    pub(crate) variables: BTreeMap<String, String>,
    /// Additional variables of every job.
    pub(crate) machine_env: BTreeMap<String, String>,
    /// By path: the number, and whether it is disabled.
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

/// The state of a workflow besides its file.
#[derive(Debug, Clone)]
pub(crate) struct WorkflowState {
    /// Its number.
    pub(crate) id: u64,
    /// `active`, `disabled_manually`, ….
    pub(crate) state: String,
    /// How many runs it had.
    pub(crate) runs: u64,
}

/// A valid token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// Its login.
    pub(crate) login: String,
    /// Its kind.
    pub(crate) kind: TokenKind,
    /// By lower-case `owner/name` or `owner/*`: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// The scopes of a classic token.
    pub(crate) scopes: Vec<String>,
    /// The role of its owner in its repositories: `admin`, `write` or `read`.
    pub(crate) role: String,
    /// When it expires.
    pub(crate) expires_at: Option<Timestamp>,
}

impl Token {
    /// The permissions in a repository; `None` if it is not among its repositories.
    pub(crate) fn grants_in(&self, full_name: &str) -> Option<&BTreeMap<String, String>> {
        let full_name = full_name.to_lowercase();
        let owner = full_name.split('/').next().unwrap_or_default();
        let is_blind = self.kind == TokenKind::Classic && !self.scopes.iter().any(|scope| scope == "repo");
        let all = || self.grants.get(&format!("{owner}/*"));
        self.grants.get(&full_name).or_else(all).filter(|_| !is_blind)
    }
}

/// A GitHub App.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The public key for its JWTs.
    pub(crate) public_key_pem: String,
    /// By `owner/name`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// By lower-case owner: the number of the installation.
    pub(crate) installations: BTreeMap<String, u64>,
    /// How long a token is valid.
    pub(crate) token_seconds: u64,
}

/// A finished artifact.
#[derive(Debug, Clone)]
pub(crate) struct Artifact {
    /// Its number.
    pub(crate) id: u64,
    /// Its run.
    pub(crate) run: u64,
    /// Its name.
    pub(crate) name: String,
    /// How many bytes.
    pub(crate) size: u64,
    /// `sha256:…`.
    pub(crate) digest: String,
    /// When it was finished.
    pub(crate) created_at: Timestamp,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
    /// Its blob's name.
    pub(crate) blob: String,
}

/// What was uploaded to one URL.
#[derive(Debug, Default)]
pub(crate) struct Blob {
    /// Blocks that are not yet in the list, by id.
    pub(crate) blocks: BTreeMap<String, Vec<u8>>,
    /// The content, once the list arrived.
    pub(crate) content: Option<Vec<u8>>,
    /// The content type.
    pub(crate) content_type: String,
    /// The valid signatures of its URL, with their expiry.
    pub(crate) signatures: BTreeMap<String, Instant>,
    /// Its artifact, while it is being uploaded.
    pub(crate) upload: Option<Upload>,
}

/// An artifact that is being uploaded.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    /// Its run.
    pub(crate) run: u64,
    /// Its name.
    pub(crate) name: String,
    /// When it expires.
    pub(crate) expires_at: Timestamp,
}

/// A concurrency group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The run that holds it.
    pub(crate) running: Option<u64>,
    /// Who waits, in order.
    pub(crate) pending: VecDeque<u64>,
}

impl World {
    /// A world without repositories.
    pub(crate) fn new(options: Options, urls: Ready) -> anyhow::Result<Self> {
        let _ = CLOCK_OFFSET.set(SignedDuration::from_secs(options.clock_offset_seconds));
        Ok(Self {
            machines: Semaphore::new(options.max_jobs),
            openapi: OpenApi::load()?,
            options,
            urls,
            sealing_key: crypto_box::SecretKey::generate(&mut crypto_box::aead::OsRng),
            changed: Notify::new(),
            started: Instant::now(),
            // Larger than 32 bits, like GitHub's.
            state: Mutex::new(State { last_id: 17_000_000_000, ..State::default() }),
        })
    }

    /// Locks the state.
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

    /// The directory of the bare repositories.
    pub(crate) fn git_root(&self) -> PathBuf {
        self.options.dir.join("git")
    }

    /// A repository by its name.
    pub(crate) fn repo(&self, full_name: &str) -> Option<Repo> {
        self.lock().repos.get(&full_name.to_lowercase()).cloned()
    }

    /// Waits until a condition is true; checks it after every change.
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

    /// Changes a run and notifies waiters.
    pub(crate) fn change<T>(&self, run: u64, change: impl FnOnce(&mut Run) -> T) -> Option<T> {
        let result = self.lock().runs.get_mut(&run).map(|run| {
            run.updated_at = now();
            change(run)
        });
        self.changed.notify_waiters();
        result
    }

    /// Records a violation.
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

    /// The plan of an owner; a paid one unless a test says otherwise.
    pub(crate) fn plan_of(&self, owner: &str) -> &str {
        self.plans.get(&owner.to_lowercase()).map_or("pro", String::as_str)
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

/// How far the server's clock is ahead of this machine's.
static CLOCK_OFFSET: OnceLock<SignedDuration> = OnceLock::new();

/// The time by the server's own clock.
pub(crate) fn now() -> Timestamp {
    let offset = CLOCK_OFFSET.get().copied().unwrap_or_default();
    Timestamp::now() + offset
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
