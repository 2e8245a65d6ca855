//! What the control API speaks: shared, as this file, by the server and by the tests that drive it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The one line on stdout when the server is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The REST API, without a final slash.
    pub(crate) api_url: String,
    /// Web and git, without a final slash.
    pub(crate) server_url: String,
    /// The control API, without a final slash.
    pub(crate) control_url: String,
    /// The artifact service and its blob store: another host, as at GitHub.
    pub(crate) results_url: String,
    /// The file with the certificate of its CA, with TLS.
    pub(crate) ca_file: Option<String>,
}

/// A repository to create.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewRepo {
    /// `owner/name`.
    pub(crate) full_name: String,
    /// Whether only those see it who may.
    pub(crate) private: bool,
    /// Whether it is read-only.
    pub(crate) archived: bool,
    /// Whether pull requests may merge themselves.
    pub(crate) allow_auto_merge: bool,
    /// `main` unless given.
    pub(crate) default_branch: Option<String>,
    /// What `${{ secrets.NAME }}` gives.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Further variables of every leg, as a self-hosted runner's machine would set them.
    pub(crate) machine_env: BTreeMap<String, String>,
}

/// A file to commit on a branch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFile {
    /// `owner/name`.
    pub(crate) repo: String,
    /// The branch, which is made if it does not exist.
    pub(crate) branch: String,
    /// Where it goes.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) content_base64: String,
}

/// Whose token it is, which decides limits and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenKind {
    /// A fine-grained personal access token.
    #[default]
    Personal,
    /// A classic one, which may do everything in its repositories.
    Classic,
    /// Of an installation of an App.
    Installation,
    /// `GITHUB_TOKEN` of a job.
    Job,
}

/// A token to accept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Its text.
    pub(crate) token: String,
    /// Whose.
    pub(crate) login: String,
    /// What kind.
    pub(crate) kind: TokenKind,
    /// By `owner/name`: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
}

/// A GitHub App to register; the answer is its private key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewApp {
    /// Its id.
    pub(crate) id: u64,
    /// Where it is installed, by `owner/name`: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// How long an installation token lives; an hour unless given.
    pub(crate) token_seconds: Option<u64>,
}

/// Something that goes wrong, or differently.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// What.
    #[serde(flatten)]
    pub(crate) what: What,
    /// How often; `None` for ever.
    #[serde(default)]
    pub(crate) times: Option<u64>,
    /// How many that it would strike are let through before.
    #[serde(default)]
    pub(crate) skip: u64,
}

/// The kinds of fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    /// A route answers something else.
    Answer {
        /// `METHOD /path/{template}` as in GitHub's description; `*` at the end stands for anything. The other services
        /// are `TWIRP CreateArtifact` and so on, `BLOB GET`, `BLOB PUT`, `GIT info/refs`, `GIT git-upload-pack` and
        /// `GIT git-receive-pack`.
        route: String,
        /// Whether what was asked for is done before.
        after: bool,
        /// What is answered.
        answer: Wrong,
    },
    /// A token has no requests left.
    RateLimitUsedUp {
        /// When it has them again.
        seconds: u64,
    },
    /// Dispatches are answered 204, whatever was asked for.
    NoRunDetails,
    /// `return_run_details` is refused, as before GHES 3.21.
    OldGhes,
    /// A new run cannot be read, nor is it listed.
    RunInvisible {
        /// For how long.
        seconds: f64,
    },
    /// A new run waits for a machine.
    SlowQueue {
        /// For how long.
        seconds: f64,
    },
    /// A new run waits for a machine that never comes.
    NeverStarts,
    /// A new run ends before it has any job.
    StartupFailure,
    /// A new run is cancelled by somebody.
    RunCancelled {
        /// When.
        when: When,
    },
    /// A new run's jobs meet their time limit.
    RunTimesOut {
        /// When.
        when: When,
    },
    /// A leg of a new run is killed.
    LegKilled {
        /// Which one, counted from 0 in the order of the matrix; `None` the first that starts.
        leg: Option<usize>,
        /// When.
        when: When,
        /// Whether its files are lost as well.
        machine_lost: bool,
    },
    /// A push finds that somebody was faster.
    RefMoved {
        /// The beginning of the branch's name.
        branch: String,
    },
    /// A push is refused by secret scanning.
    SecretScanning {
        /// The beginning of the branch's name.
        branch: String,
    },
    /// A push is refused by a ruleset.
    Ruleset {
        /// The beginning of the branch's name.
        branch: String,
        /// Which rule, in GitHub's words.
        rule: String,
    },
    /// An artifact is expired when somebody asks for it.
    ArtifactExpired {
        /// The beginning of its name.
        name: String,
    },
}

/// A wrong answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Wrong {
    /// A status, with a body and headers.
    Status {
        /// The status.
        status: u16,
        /// The body: JSON if it begins with `{`, else HTML.
        body: String,
        /// Headers, for example `retry-after`.
        headers: BTreeMap<String, String>,
    },
    /// No answer, for ever.
    Hang,
    /// The first half of the right answer, then the end of the connection.
    Torn,
    /// The end of the connection.
    Dropped,
    /// The right answer, late.
    Late {
        /// By how much.
        ms: u64,
    },
}

/// A moment in the life of a run or leg.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "after", rename_all = "snake_case")]
pub(crate) enum When {
    /// So long after its start.
    Seconds {
        /// How long.
        seconds: f64,
    },
    /// After so many accepted pushes to the repository since its start.
    Pushes {
        /// How many.
        count: usize,
    },
    /// After so many artifacts of the run.
    Artifacts {
        /// How many.
        count: usize,
    },
    /// When a number of a JSON document, for example a server's count of answers, has got there.
    Counter {
        /// Where the document is.
        url: String,
        /// Which number, as a JSON pointer.
        pointer: String,
        /// Where it has to get.
        at_least: u64,
    },
}

/// A fault and how often it struck.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FaultState {
    /// Its number.
    pub(crate) id: u64,
    /// The fault, with what is left of `times` and `skip`.
    pub(crate) fault: Fault,
    /// How often it struck.
    pub(crate) struck: u64,
}

/// A request that arrived, and its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// `GET`, ….
    pub(crate) method: String,
    /// The path, without prefix and query.
    pub(crate) path: String,
    /// The query, as sent.
    pub(crate) query: String,
    /// Which of GitHub's routes it is; empty if none.
    pub(crate) route: String,
    /// Who asked; empty for nobody in particular.
    pub(crate) login: String,
    /// The headers, without the token.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body, if it is JSON.
    pub(crate) body: Option<Value>,
    /// The status; 0 while there is none, or when the connection ended without one.
    pub(crate) status: u16,
    /// Whether it counts against the limit.
    pub(crate) counted: bool,
    /// Milliseconds since the server started.
    pub(crate) at_ms: u64,
}

/// Something that GitHub's description does not allow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Violation {
    /// The request.
    pub(crate) request: String,
    /// What is wrong.
    pub(crate) reason: String,
}

/// A push that was answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Push {
    /// `owner/name`.
    pub(crate) repo: String,
    /// `refs/heads/…`.
    pub(crate) reference: String,
    /// Who pushed.
    pub(crate) login: String,
    /// Whether the reference is now what was pushed.
    pub(crate) accepted: bool,
    /// Milliseconds since the server started.
    pub(crate) at_ms: u64,
}

/// A comment on a pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CommentView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Of which pull request.
    pub(crate) number: u64,
    /// Who wrote it.
    pub(crate) login: String,
    /// What it says.
    pub(crate) body: String,
    /// How often it was changed.
    pub(crate) updates: u64,
}

/// A pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PullView {
    /// Its id.
    pub(crate) id: u64,
    /// Its number.
    pub(crate) number: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Who opened it.
    pub(crate) login: String,
    /// The branch with the changes.
    pub(crate) head: String,
    /// The branch that they are for.
    pub(crate) base: String,
    /// Its title.
    pub(crate) title: String,
    /// What it says.
    pub(crate) body: String,
    /// `open` or `closed`.
    pub(crate) state: String,
    /// Its labels.
    pub(crate) labels: Vec<String>,
    /// How it merges itself, if it does.
    pub(crate) auto_merge: Option<String>,
}

/// An issue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IssueView {
    /// Its id.
    pub(crate) id: u64,
    /// Its number.
    pub(crate) number: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Who opened it.
    pub(crate) login: String,
    /// Its title.
    pub(crate) title: String,
    /// What it says.
    pub(crate) body: String,
    /// `open` or `closed`.
    pub(crate) state: String,
    /// How often it was changed.
    pub(crate) updates: u64,
}

/// A comment on a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CommitCommentView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// On which commit.
    pub(crate) commit: String,
    /// Who wrote it.
    pub(crate) login: String,
    /// What it says.
    pub(crate) body: String,
    /// How often it was changed.
    pub(crate) updates: u64,
}

/// A run, as the tests look at it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Its `run-name`.
    pub(crate) title: String,
    /// `queued`, `in_progress`, ….
    pub(crate) status: String,
    /// `success`, `failure`, …, once it is over.
    pub(crate) conclusion: Option<String>,
    /// 1, and one more with each re-run.
    pub(crate) attempt: u64,
    /// What was dispatched, with defaults.
    pub(crate) inputs: BTreeMap<String, String>,
    /// The legs, of all attempts.
    pub(crate) jobs: Vec<JobView>,
    /// The names of its artifacts.
    pub(crate) artifacts: Vec<String>,
}

/// A job, as the tests look at it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobView {
    /// Its id.
    pub(crate) id: u64,
    /// For example `run (0)`.
    pub(crate) name: String,
    /// Of which attempt.
    pub(crate) attempt: u64,
    /// `queued`, `in_progress`, `completed`.
    pub(crate) status: String,
    /// How it ended.
    pub(crate) conclusion: Option<String>,
    /// What the program ended with, if it did by itself.
    pub(crate) exit_code: Option<i32>,
    /// The process, while there is one.
    pub(crate) pid: Option<u32>,
    /// The log, as a reader sees it.
    pub(crate) log: String,
    /// `GITHUB_OUTPUT`.
    pub(crate) outputs: BTreeMap<String, String>,
    /// `GITHUB_STEP_SUMMARY`.
    pub(crate) summary: String,
    /// Level and message.
    pub(crate) annotations: Vec<(String, String)>,
}
